// What is shown of the ranges of a target while they are read.
#include <memory>
#include <mutex>

#include "shim/collector.h"

namespace rls {

void ShimCollector::Watch() {
  phases_ = std::make_unique<LivePhases>();
  writer_.Watch(phases_.get());
}

void ShimCollector::Keep() {
  const std::lock_guard<std::timed_mutex> lock(mutex_);
  writer_.Keep();
  // What was lost before is the first value of each counter.
  for (Source& source : open_) {
    source.counters.clear();
    source.lost = {};
    WriteLosses(&source, /*is_before_us=*/true);
  }
}

std::vector<LivePhaseRow> ShimCollector::Phases(std::uint64_t now_ns) {
  const std::lock_guard<std::timed_mutex> lock(mutex_);
  if (phases_ == nullptr) return {};
  DrainAll();
  return phases_->Phases(
      now_ns,
      [this](std::uint32_t number, std::uint32_t slot, rls_shim_open* entries) -> std::uint32_t {
        for (const Source& source : open_)
          if (source.number == number && slot < source.memory->slots())
            return source.memory->Open(slot, entries);
        return 0;
      });
}

std::vector<LiveGpuRow> ShimCollector::Gpu() {
  const std::lock_guard<std::timed_mutex> lock(mutex_);
  return phases_ == nullptr ? std::vector<LiveGpuRow>() : phases_->Gpu();
}

}  // namespace rls
