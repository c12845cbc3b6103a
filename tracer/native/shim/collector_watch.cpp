// Segments of what shims say, and what is shown of it while it is read.
#include <memory>
#include <mutex>

#include "shim/collector.h"

namespace rls {

bool ShimCollector::Rotate(std::uint64_t number) {
  const std::lock_guard<std::timed_mutex> lock(mutex_);
  DrainAll();
  for (Source& source : open_) WriteLosses(&source);
  WriteRefused();
  if (!writer_.BeginSegment(number)) return false;
  for (Source& source : open_) WriteLossesBefore(&source);
  writer_.Write(ShimBlockKind::kRefusedBefore, 0, 0, &written_refused_, sizeof(written_refused_));
  return writer_.EndKeyframe();
}

// Of what a segment tells, that is not lost.
void ShimCollector::WriteLossesBefore(Source* source) {
  for (std::uint32_t slot = 0; slot < source->counters.size(); ++slot)
    writer_.Write(ShimBlockKind::kCountersBefore, source->number, slot, &source->counters[slot],
                  sizeof(source->counters[slot]));
  writer_.Write(ShimBlockKind::kLostBefore, source->number, 0, &source->lost, sizeof(source->lost));
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
