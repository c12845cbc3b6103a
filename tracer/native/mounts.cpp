#include "mounts.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

namespace rls {

std::uint64_t MountOf(int fd) {
  char path[40];
  std::snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
  FILE* file = std::fopen(path, "re");
  if (file == nullptr) return kNoMount;
  char line[128];
  unsigned long long mount = kNoMount;
  while (std::fgets(line, sizeof(line), file) != nullptr)
    if (std::sscanf(line, "mnt_id: %llu", &mount) == 1) break;
  std::fclose(file);
  return mount;
}

std::uint64_t SharedMount(unsigned flags) {
  const int memfd =
      static_cast<int>(syscall(SYS_memfd_create, "rlscope", flags | 1U /* MFD_CLOEXEC */));
  if (memfd < 0) return kNoMount;
  const std::uint64_t mount = MountOf(memfd);
  close(memfd);
  return mount;
}

}  // namespace rls
