// The Python interpreter of a process: which it is, and where it keeps what we need of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "finder/elf.h"
#include "finder/process.h"

namespace rls {

struct RuntimeSymbol {
  std::uint64_t address;
  std::uint64_t file_offset;
};

struct PythonRuntime {
  std::string implementation;  // cpython, pypy
  std::vector<int> version;    // major, minor, micro, as far as known
  bool is_free_threaded = false;
  AddressRange runtime = {};        // _PyRuntime
  AddressRange module_memory = {};  // what the file occupies, relocated
  std::string module_path;
  std::optional<std::uint64_t> interpreters;
  std::map<std::string, RuntimeSymbol> symbols;  // exported functions
  std::map<std::string, std::uint64_t> types;    // exported types, by name

  // PyObject: reference count and type; free-threaded builds have a longer one.
  std::uint64_t HeadBytes() const { return is_free_threaded ? 32 : 16; }
};

// nullopt: no interpreter that we know, or one that has not begun to run.
std::optional<PythonRuntime> FindRuntime(const TargetProcess& process,
                                         const std::vector<Mapping>& maps);

}  // namespace rls
