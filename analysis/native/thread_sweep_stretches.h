// Turns the changes on a thread, and those of the GPU, into time and stretches per key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

// Keys have the GPU as their lowest byte; where they go in, it is 0.
class Stretches {
 public:
  static constexpr uint64_t kNotMeasured = 255;

  void enter(const GpuBusy& busy, int64_t start_ns, bool gpu_is_measured) {
    gpu_is_measured_ = gpu_is_measured;
    gpu_.enter(gpu_is_measured ? busy.edges() : no_edges_, start_ns);
    ends_ = ThreadEnds{start_ns, start_ns, 0, 0};
    busy_ns_ = gpu_.busy_ns(start_ns);
    key_ = KeyTotals::kFree;
    start_ns_ = start_ns;
  }

  // From now_ns on, all but the GPU is as `key` says. Once per instant, and at the start.
  void change(uint64_t key, int64_t now_ns) {
    if (key == key_) return;
    if (now_ns > start_ns_) add(now_ns);
    key_ = key;
    start_ns_ = now_ns;
  }

  ThreadEnds leave(int64_t end_ns) {
    add(end_ns);
    ends_.end_ns = end_ns;
    ends_.last_key = key_ | gpu_value(gpu_.passed() & 1U);
    return ends_;
  }

  // Hands over what was found of the thread, in no order.
  template <typename Take>
  void drain(Take take) {
    totals_.drain([&](const KeyTotals& found) {
      for (const std::size_t gpu : {0U, 1U}) {
        if (found.count[gpu] == 0) continue;
        take(KeyTotal{found.key | gpu_value(gpu),
                      gpu == 1 ? found.busy_ns : found.time_ns - found.busy_ns, found.count[gpu],
                      found.first_ns[gpu], found.last_ns[gpu]});
      }
    });
  }

 private:
  // Adds the time since the last change, whatever the GPU did meanwhile: its state changes `edges`
  // times, so there are edges + 1 stretches, of either kind in turn.
  void add(int64_t now_ns) {
    // An edge at the very instant of the last change: no stretch lies between the two.
    gpu_.pass_at(start_ns_);
    const std::size_t before = gpu_.passed();
    gpu_.pass_before(now_ns);
    const std::size_t after = gpu_.passed();
    const std::size_t edges = after - before;
    const std::size_t kind = before & 1U;
    const std::size_t last_kind = after & 1U;

    KeyTotals& total = totals_.find(key_);
    const int64_t busy_ns = gpu_.busy_ns(now_ns);
    total.time_ns += now_ns - start_ns_;
    total.busy_ns += busy_ns - busy_ns_;
    busy_ns_ = busy_ns;
    total.count[kind] += static_cast<int64_t>((edges + 2) / 2);
    total.count[kind ^ 1U] += static_cast<int64_t>((edges + 1) / 2);
    // The last stretch of the other kind ended at the last edge, if there was one.
    int64_t& other_last_ns = total.last_ns[last_kind ^ 1U];
    const int64_t has_edge = -static_cast<int64_t>(edges > 0);  // a mask: see pass_before
    other_last_ns = (gpu_.last_edge_ns() & has_edge) | (other_last_ns & ~has_edge);
    total.last_ns[last_kind] = now_ns;
    const bool other_is_new = edges > 0 && total.first_ns[kind ^ 1U] == kNever;
    if (__builtin_expect(total.first_ns[kind] == kNever || other_is_new, 0)) {
      note_first(&total, before, edges);
    }
  }

  void note_first(KeyTotals* total, std::size_t before, std::size_t edges) {
    const std::size_t kind = before & 1U;
    if (start_ns_ == ends_.start_ns) ends_.first_key = key_ | gpu_value(kind);
    if (total->first_ns[kind] == kNever) total->first_ns[kind] = start_ns_;
    if (edges > 0 && total->first_ns[kind ^ 1U] == kNever) {
      total->first_ns[kind ^ 1U] = gpu_.edge_ns(before);
    }
  }

  uint64_t gpu_value(std::size_t kind) const { return gpu_is_measured_ ? kind : kNotMeasured; }

  const std::vector<GpuEdge> no_edges_{{kAlways, 0}, {kNever, 0}};
  TotalsTable totals_;
  GpuCursor gpu_;
  bool gpu_is_measured_ = false;
  uint64_t key_ = 0;
  int64_t start_ns_ = 0;
  int64_t busy_ns_ = 0;
  ThreadEnds ends_;
};

}  // namespace rls
