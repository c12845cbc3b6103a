// The numbers of /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace rls {

// As proc(5) counts them; 0 for what is no number, and for what comes before the state, which is 3.
// Empty for a process that has ended.
std::vector<std::uint64_t> ReadStat(pid_t pid);

}  // namespace rls
