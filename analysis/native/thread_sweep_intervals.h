// Turns the changes on a thread, and those of the GPU, into time and intervals per key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "segment_writer.h"
#include "thread_sweep_gpu.h"
#include "thread_sweep_totals.h"

namespace rls {

// The first and last keys of a thread: how the parts of a thread that was cut are joined.
struct ThreadEnds {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t first_key = 0;
  uint64_t last_key = 0;
};

// Keys have the GPU as their lowest byte; where they go in, it is 0. Segments: NoSegments, or a
// SegmentWriter, which gets each interval of a thread in order.
template <typename Segments>
class Intervals {
 public:
  static constexpr uint64_t kNotMeasured = 255;

  explicit Intervals(Segments* segments) : segments_(segments) {}

  void enter(int32_t thread_id, const GpuBusy& busy, int64_t start_ns, bool gpu_is_measured) {
    segments_->enter(thread_id);
    gpu_is_measured_ = gpu_is_measured;
    gpu_.enter(gpu_is_measured ? busy.edges() : no_edges_, start_ns);
    ends_ = ThreadEnds{start_ns, start_ns, 0, 0};
    busy_ns_ = gpu_.busy_ns(gpu_.next(), start_ns);
    start_ns_ = start_ns;
  }

  // See TotalsTable::find.
  std::size_t place_of(std::size_t number, uint64_t key) { return totals_.find(number, key); }

  // What is so at the start, but for the GPU.
  void begin(std::size_t place) { place_ = place; }

  // From now_ns on, all but the GPU is as the key at `place` says. Once per instant after the
  // start.
  void change(std::size_t place, int64_t now_ns) {
    if (place == place_) return;
    add(now_ns);
    place_ = place;
    start_ns_ = now_ns;
  }

  ThreadEnds leave(int64_t end_ns) {
    const std::size_t edge = add(end_ns);
    ends_.end_ns = end_ns;
    ends_.last_key = totals_.key(place_) | gpu_value(kind_before(edge));
    return ends_;
  }

  // Hands over what was found of the thread, in no order.
  template <typename Take>
  void drain(Take take) {
    totals_.drain([&](uint64_t key, const KeyTotals& found) {
      for (const std::size_t kind : {KeyTotals::kBusy, KeyTotals::kIdle}) {
        if (found.count_of(kind) == 0) continue;
        const bool is_busy = kind == KeyTotals::kBusy;
        take(KeyTotal{key | gpu_value(kind),
                      is_busy ? found.busy_ns : found.time_ns - found.busy_ns, found.count_of(kind),
                      found.first_ns[kind], found.last_ns[kind]});
      }
    });
  }

 private:
  // Adds the time since the last change, whatever the GPU did meanwhile: its state changes `edges`
  // times, so there are edges + 1 intervals, of either kind in turn. Returns the edge that the GPU
  // comes to next.
  std::size_t add(int64_t now_ns) {
    KeyTotals& total = totals_[place_];
    // None at the very instant of the last change: no interval lies between the two.
    const std::size_t first_edge = gpu_.next();
    const std::size_t last_edge = gpu_.pass(now_ns);
    const std::size_t edges = last_edge - first_edge;
    const std::size_t last_kind = kind_before(last_edge);
    if constexpr (Segments::kWanted) write_segments(first_edge, last_edge, now_ns);
    if (__builtin_expect(total.busy_count == 0 || total.busy_count == total.count, 0)) {
      note_first(&total, first_edge, edges);
    }

    const int64_t busy_ns = gpu_.busy_ns(last_edge, now_ns);
    total.time_ns += now_ns - start_ns_;
    total.busy_ns += busy_ns - busy_ns_;
    busy_ns_ = busy_ns;
    total.count += static_cast<int64_t>(edges + 1);
    total.busy_count += static_cast<int64_t>((edges + 2 - kind_before(first_edge)) / 2);
    // The last interval of the other kind ended at the last edge, if there was one.
    int64_t& other_last_ns = total.last_ns[last_kind ^ 1U];
    const int64_t has_edge = -static_cast<int64_t>(edges > 0);  // a mask: see GpuCursor::pass
    other_last_ns = (gpu_.at_ns(last_edge - 1) & has_edge) | (other_last_ns & ~has_edge);
    total.last_ns[last_kind] = now_ns;
    return last_edge;
  }

  void write_segments(std::size_t first_edge, std::size_t last_edge, int64_t now_ns) {
    const uint64_t key = totals_.key(place_);
    int64_t from_ns = start_ns_;
    for (std::size_t edge = first_edge; edge < last_edge; ++edge) {
      segments_->add(key | gpu_value(kind_before(edge)), from_ns, gpu_.at_ns(edge));
      from_ns = gpu_.at_ns(edge);
    }
    segments_->add(key | gpu_value(kind_before(last_edge)), from_ns, now_ns);
  }

  // Seldom: kept out of line, so that add needs few registers.
  __attribute__((noinline)) void note_first(KeyTotals* total, std::size_t first_edge,
                                            std::size_t edges) {
    const std::size_t kind = kind_before(first_edge);
    if (start_ns_ == ends_.start_ns) ends_.first_key = totals_.key(place_) | gpu_value(kind);
    if (total->count_of(kind) == 0) total->first_ns[kind] = start_ns_;
    if (edges > 0 && total->count_of(kind ^ 1U) == 0) {
      total->first_ns[kind ^ 1U] = gpu_.at_ns(first_edge);
    }
  }

  static std::size_t kind_before(std::size_t edge) { return edge & 1U; }

  uint64_t gpu_value(std::size_t kind) const { return gpu_is_measured_ ? 1U - kind : kNotMeasured; }

  Segments* segments_;
  const GpuEdges no_edges_;
  TotalsTable totals_;
  GpuCursor gpu_;
  bool gpu_is_measured_ = false;
  std::size_t place_ = 0;
  int64_t start_ns_ = 0;
  int64_t busy_ns_ = 0;
  ThreadEnds ends_;
};

}  // namespace rls
