// The memory of another process: its mappings, and its bytes.
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
