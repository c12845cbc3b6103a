// From the clock of CUPTI to that of the trace, by readings of both at one instant.
#pragma once

#include <cstdint>
#include <vector>

#include "cupti/records.h"

namespace rls {

class ShimGpuClock {
 public:
  void Add(const rls_shim_gpu_clock& reading);
  // After the last, before anything is converted.
  void Finish();

  // Returns a stamp of CUPTI as CLOCK_MONOTONIC; 0: it is not known. Stamps that CUPTI took by
  // our callback are that already.
  std::int64_t Monotonic(std::uint64_t stamp) const;
  // Whether a stamp is of another clock than that of the trace.
  static bool IsForeign(std::uint64_t stamp) { return stamp >= kFirstForeignNs; }
  // How far a converted stamp may be off (ns), of those that lie between two readings: half of the
  // time that a reading took, and by how much a reading is off the line between its neighbours.
  std::int64_t error_ns() const { return error_ns_; }
  bool is_known() const { return !runs_.empty(); }
  // The clock of CUPTI was set while the process ran: stamps around that instant are not converted.
  bool was_set() const { return runs_.size() > 1; }

 private:
  // A clock that was set more often than that is not known: nobody sets one so often.
  static constexpr std::size_t kMaxRuns = 64;
  // CLOCK_REALTIME of September 2001: a machine would have to be up for 31 years to reach it.
  static constexpr std::uint64_t kFirstForeignNs = 1'000'000'000'000'000'000;

  struct Reading {
    std::int64_t monotonic_ns;
    std::int64_t foreign_ns;
    std::int64_t width_ns;

    std::int64_t offset_ns() const { return foreign_ns - monotonic_ns; }
  };
  struct Run {  // readings between which the clock was not set
    std::size_t first;
    std::size_t last;
  };

  void FindRuns();
  bool Covers(std::size_t run, std::int64_t stamp) const;
  std::int64_t OffsetAt(const Run& run, std::int64_t stamp) const;
  std::int64_t ErrorOf(const Run& run) const;

  std::vector<rls_shim_gpu_clock> reported_;
  std::vector<Reading> readings_;
  std::vector<Run> runs_;
  std::int64_t error_ns_ = 0;
};

}  // namespace rls
