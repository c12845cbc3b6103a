// The numbers of /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rls {

// Where the first address of the arguments is, another one for each program, and the last one of
// the environment.
constexpr std::size_t kArgStart = 48;
constexpr std::size_t kEnvEnd = 51;

// As proc(5) counts them; 0 for what is no number, and for what comes before the state, which is 3.
// Empty for a process that has ended.
std::vector<std::uint64_t> ReadStat(pid_t pid);

}  // namespace rls
