// A file of code whose functions are probed by their names, wherever it is mapped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "finder/elf.h"

namespace rls {

// Where a function is probed.
struct FunctionSite {
  std::uint64_t file_offset;     // of the instruction
  std::uint64_t function_start;  // its file offset
  bool is_expensive;             // it has to be stepped
};

class FunctionFile {
 public:
  // Throws std::system_error where the path cannot be opened, or is no regular file.
  explicit FunctionFile(const std::string& path);

  // The names of its functions that begin so.
  std::vector<std::string> Names(const std::string& prefix);
  // By name, of those that Names() gave: the site, or why there is none.
  std::map<std::string, std::variant<FunctionSite, std::string>> Sites(
      const std::vector<std::string>& names);
  bool Imports(const std::string& prefix) const { return file_.Imports(prefix); }
  bool HasSection(const std::string& name) const { return file_.HasSection(name); }

 private:
  ElfFile file_;
  std::map<std::string, ElfSymbol> functions_;
};

}  // namespace rls
