// How much of it a recording takes: the processes of the target may write anything, as fast as they
// can, for as long as it lasts.
//
// docs/capture.md tells of these numbers: a program that marks its work, however often, stays below
// them; one that does nothing but mark does so for two seconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rls {

// A tank that fills up again: `room` at once, `per_s` for ever.
struct Allowance {
  double room;
  double per_s;
};

// Bytes of shim.bin.
constexpr double kMiB = 1 << 20;
constexpr Allowance kBytesOfProcess = {192 * kMiB, 32 * kMiB};
constexpr Allowance kBytesOfAll = {384 * kMiB, 96 * kMiB};
// Memories of one pid: it has a new one whenever it replaces its program.
constexpr Allowance kMemoriesOfProcess = {400, 2};
// Memories that are read at a time, each of which takes 257 MiB of addresses.
constexpr std::size_t kMaxSources = 4096;
// Descriptors of a process that bear the name of such a memory, looked at in one search of it.
constexpr int kMaxCandidates = 64;
constexpr std::uint64_t kFindNs = 250'000'000;

// What is left of an allowance. It may be overdrawn, by what is taken at a time.
class Budget {
 public:
  explicit Budget(const Allowance& allowance) : allowance_(allowance), left_(allowance.room) {}

  bool HasLeft(std::uint64_t now_ns) {
    if (now_ns > since_ns_ && since_ns_ != 0)
      left_ += allowance_.per_s * static_cast<double>(now_ns - since_ns_) / 1e9;
    left_ = std::min(left_, allowance_.room);
    since_ns_ = now_ns;
    return left_ > 0;
  }
  void Take(std::size_t count) { left_ -= static_cast<double>(count); }
  bool IsFull(std::uint64_t now_ns) { return HasLeft(now_ns) && left_ >= allowance_.room; }

 private:
  Allowance allowance_;
  double left_;
  std::uint64_t since_ns_ = 0;
};

}  // namespace rls
