// The symbols of what another process has loaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inject/maps.h"

namespace rls {

// An object that a process has loaded. The file is opened by its mapping, so it is the right one
// even where another now lies under its name, or the process has a file system of its own.
class LoadedObject {
 public:
  // The first mapping of the object.
  LoadedObject(pid_t pid, const std::vector<Mapping>& maps, const Mapping& first);

  // The address of an exported function or variable in the process.
  std::optional<std::uint64_t> FindSymbol(const std::string& name) const;
  // The address of these bytes in the code of the object.
  std::optional<std::uint64_t> FindCode(const std::vector<unsigned char>& bytes) const;

 private:
  std::uint64_t AddressOf(std::uint64_t virtual_address) const { return base_ + virtual_address; }

  std::vector<unsigned char> file_;
  std::uint64_t base_ = 0;
};

// Finds the object whose file name begins with `prefix`, as "libc.so.6"; nullopt: not loaded.
std::optional<LoadedObject> FindObject(pid_t pid, const std::string& prefix);

}  // namespace rls
