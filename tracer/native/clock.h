// The clocks of a trace. Everything is CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns.
#pragma once

#include <cstdint>
#include <ctime>

namespace rls {

inline std::uint64_t ReadClockNs(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t MonotonicNs() { return ReadClockNs(CLOCK_MONOTONIC); }

}  // namespace rls
