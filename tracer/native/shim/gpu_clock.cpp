#include "shim/gpu_clock.h"

#include <algorithm>
#include <cstdlib>

#include "shim/file.h"

namespace rls {
namespace {

// The kernel slews the wall clock by at most 0.05 %; what differs by more was set.
constexpr std::int64_t kMostDriftDivisor = 1000;
constexpr std::int64_t kMostJitterNs = 1'000'000;

}  // namespace

void ShimGpuClock::Add(const rls_shim_gpu_clock& reading) { reported_.push_back(reading); }

// The clock of CUPTI is the wall clock, unless CUPTI itself says otherwise.
void ShimGpuClock::Finish() {
  const bool has_own =
      std::any_of(reported_.begin(), reported_.end(),
                  [](const rls_shim_gpu_clock& reported) { return IsForeign(reported.cupti_ns); });
  for (const rls_shim_gpu_clock& reported : reported_) {
    const std::uint64_t foreign_ns = has_own ? reported.cupti_ns : reported.realtime_ns;
    // So that the difference of any two fits.
    if (!IsForeign(foreign_ns) || !IsTime(foreign_ns) || IsForeign(reported.monotonic_ns)) continue;
    readings_.push_back({Signed(reported.monotonic_ns), Signed(foreign_ns), reported.width_ns});
  }
  reported_.clear();
  std::stable_sort(readings_.begin(), readings_.end(), [](const Reading& a, const Reading& b) {
    return a.monotonic_ns < b.monotonic_ns;
  });
  FindRuns();
  if (runs_.size() > kMaxRuns) runs_.clear();
  for (const Run& run : runs_) error_ns_ = std::max(error_ns_, ErrorOf(run));
}

void ShimGpuClock::FindRuns() {
  for (std::size_t index = 0; index < readings_.size(); ++index) {
    bool is_new = runs_.empty();
    if (!is_new) {
      const Reading& before = readings_[index - 1];
      const std::int64_t passed_ns = readings_[index].monotonic_ns - before.monotonic_ns;
      const std::int64_t moved_ns = readings_[index].offset_ns() - before.offset_ns();
      is_new = std::abs(moved_ns) > kMostJitterNs + passed_ns / kMostDriftDivisor;
    }
    if (is_new) runs_.push_back({index, index});
    runs_.back().last = index;
  }
}

std::int64_t ShimGpuClock::ErrorOf(const Run& run) const {
  std::int64_t width_ns = 0;
  for (std::size_t index = run.first; index <= run.last; ++index)
    width_ns = std::max(width_ns, readings_[index].width_ns);
  std::int64_t drift_ns = 0;
  for (std::size_t index = run.first + 1; index < run.last; ++index) {
    const Reading& before = readings_[index - 1];
    const Reading& after = readings_[index + 1];
    const auto share =
        static_cast<double>(readings_[index].monotonic_ns - before.monotonic_ns) /
        static_cast<double>(std::max<std::int64_t>(after.monotonic_ns - before.monotonic_ns, 1));
    const auto expected_ns =
        before.offset_ns() +
        static_cast<std::int64_t>(share *
                                  static_cast<double>(after.offset_ns() - before.offset_ns()));
    drift_ns = std::max(drift_ns, std::abs(readings_[index].offset_ns() - expected_ns));
  }
  return width_ns / 2 + drift_ns;
}

std::int64_t ShimGpuClock::Monotonic(std::uint64_t stamp) const {
  if (!IsTime(stamp)) return 0;
  const std::int64_t ns = Signed(stamp);
  if (!IsForeign(stamp)) return ns;
  std::int64_t found_ns = 0;
  for (std::size_t index = 0; index < runs_.size(); ++index) {
    if (!Covers(index, ns)) continue;
    // A clock that was set back shows the same time twice.
    if (found_ns != 0) return 0;
    found_ns = ns - OffsetAt(runs_[index], ns);
  }
  return std::max<std::int64_t>(found_ns, 0);
}

// What came before the first reading and after the last belongs to theirs.
bool ShimGpuClock::Covers(std::size_t run, std::int64_t stamp) const {
  const bool is_first = run == 0;
  const bool is_last = run + 1 == runs_.size();
  return (is_first || readings_[runs_[run].first].foreign_ns <= stamp) &&
         (is_last || stamp <= readings_[runs_[run].last].foreign_ns);
}

std::int64_t ShimGpuClock::OffsetAt(const Run& run, std::int64_t stamp) const {
  const auto begin = readings_.begin() + static_cast<std::ptrdiff_t>(run.first);
  const auto end = readings_.begin() + static_cast<std::ptrdiff_t>(run.last) + 1;
  const auto after = std::upper_bound(
      begin, end, stamp,
      [](std::int64_t ns, const Reading& reading) { return ns < reading.foreign_ns; });
  if (after == begin) return begin->offset_ns();
  const auto before = after - 1;
  if (after == end) return before->offset_ns();
  // In parts: a stamp has more digits than a double.
  const auto share = static_cast<double>(stamp - before->foreign_ns) /
                     static_cast<double>(after->foreign_ns - before->foreign_ns);
  return before->offset_ns() +
         static_cast<std::int64_t>(share *
                                   static_cast<double>(after->offset_ns() - before->offset_ns()));
}

}  // namespace rls
