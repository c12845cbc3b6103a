// The memory of another process: its mappings, its bytes, and the symbols of what it has loaded.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace rls {

struct Mapping {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t offset;
  std::uint64_t inode;
  std::string permissions;  // rwxp
  std::string device;
  std::string path;  // empty: anonymous; [stack], [vdso]: the kernel's

  bool IsExecutable() const { return permissions[2] == 'x'; }
  // The last part of the path.
  std::string Name() const;
};

// The mappings by address; none of a process that is gone.
std::vector<Mapping> ReadMaps(pid_t pid);
// The same of the text that /proc/PID/maps holds; what is no line of it is passed over.
std::vector<Mapping> ParseMaps(std::istream& text);
// nullptr: nothing is mapped there.
const Mapping* FindMapping(const std::vector<Mapping>& maps, std::uint64_t address);

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

// Reads and writes through /proc/PID/mem, which ignores page protection and grows stacks.
class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid);
  ~ProcessMemory();
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  // Both return whether all bytes were copied.
  bool Read(std::uint64_t address, void* bytes, std::size_t count) const;
  bool Write(std::uint64_t address, const void* bytes, std::size_t count) const;

 private:
  int fd_;
};

}  // namespace rls
