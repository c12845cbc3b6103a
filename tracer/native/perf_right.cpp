#include "perf_right.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace rls {
namespace {

constexpr std::uint32_t kAdmin = 1U << CAP_SYS_ADMIN;

// Makes the capability effective in this thread, or not; false: it is not ours, or was so before.
bool Set(bool is_effective) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0 || (sets[0].permitted & kAdmin) == 0) return false;
  const std::uint32_t before = sets[0].effective;
  sets[0].effective = is_effective ? before | kAdmin : before & ~kAdmin;
  return sets[0].effective != before && syscall(SYS_capset, &header, sets) == 0;
}

}  // namespace

PerfRight::PerfRight() : is_raised_(Set(true)) {}

PerfRight::~PerfRight() {
  const int error = errno;  // of what it was for
  if (is_raised_) Set(false);
  errno = error;
}

}  // namespace rls
