// The names of the Python functions of a process, read from its code objects by their addresses.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "samples/process.h"
#include "samples/python_offsets.h"

namespace rls {

class PythonNames {
 public:
  // Borrows the process.
  PythonNames(const SampledProcess& process, const PythonLayout& layout)
      : process_(process), layout_(layout) {}

  // "qualified.name (file.py:12)", in UTF-8 without control characters. nullptr: there is no code
  // object at `address`, or the process is gone. A known name is checked again now and then, for an
  // address can be used again. Valid until Trim.
  const std::string* Find(std::uint64_t address, std::uint64_t now_ns);
  // Only among those that are known: for a copy of this process that is gone.
  const std::string* FindKnown(std::uint64_t address) const;
  // Starts again when there are too many.
  void Trim();

 private:
  // What makes the name of a code object.
  struct Source {
    std::uint64_t name = 0;
    std::uint64_t filename = 0;
    std::int32_t line = 0;
    bool operator==(const Source& other) const {
      return name == other.name && filename == other.filename && line == other.line;
    }
  };
  struct Known {
    Source source;
    std::uint64_t checked_ns;
    std::string text;
  };

  // nullopt: `gone`, or no code object.
  std::optional<Source> ReadSource(std::uint64_t address, bool* gone);
  bool IsCodeType(std::uint64_t type);
  // At most kCharacters of a str: its first, or its last.
  std::optional<std::u32string> ReadText(std::uint64_t address, bool last) const;
  std::optional<std::string> ReadName(const Source& source) const;

  const SampledProcess& process_;
  const PythonLayout& layout_;
  std::uint64_t code_type_ = 0;
  std::unordered_map<std::uint64_t, Known> known_;
};

}  // namespace rls
