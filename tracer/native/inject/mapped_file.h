// The files that a process has mapped, opened without asking anybody who could let us wait.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inject/maps.h"

namespace rls {

// A program that serves a file system (FUSE) answers when it likes, and whoever asks it something
// can neither be interrupted nor killed meanwhile.

// What of a process is served so. Reading memory there, and what lies in it, can wait.
class ServedMemory {
 public:
  ServedMemory() = default;
  // `before`: what was known of the same process, whose devices are not looked at again: on a
  // machine with thousands of mounts that takes milliseconds.
  ServedMemory(pid_t pid, const std::vector<Mapping>& maps, const ServedMemory& before = {});

  bool is_empty() const { return ranges_.empty(); }
  bool Holds(std::uint64_t address, std::size_t bytes) const;

 private:
  struct Range {
    std::uint64_t start;
    std::uint64_t end;
  };
  std::map<std::string, bool> by_device_;
  std::vector<Range> ranges_;
};

// The very file that is mapped, whatever lies under its name by now, if it is a regular one: a
// device can do anything when it is opened. -1: it cannot be had, or is served by a program.
int OpenMappedFile(pid_t pid, const Mapping& mapping);

// The first `most` bytes of a file of /proc/PID that shows memory of the process: cmdline, environ.
// Nothing where that memory is served by a program. Throws std::system_error.
std::string ReadShownMemory(pid_t pid, const char* name, std::size_t most);

}  // namespace rls
