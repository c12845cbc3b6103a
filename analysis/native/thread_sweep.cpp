#include "thread_sweep.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "thread_sweep_tracks.h"

namespace rls {
namespace {

constexpr uint8_t kRunnable = 1;  // 0 running, 1 runnable: neither waits for anything but a CPU
constexpr uint8_t kStateLost = 4;
constexpr uint8_t kStateNotMeasured = 255;
constexpr uint8_t kCudaApi = 4;
constexpr uint8_t kWaitGpu = 2;

std::vector<int32_t> ids_of(const std::vector<SweptThread>& threads, int32_t SweptThread::*id) {
  std::vector<int32_t> ids;
  for (const SweptThread& thread : threads) {
    if (ids.empty() || ids.back() != thread.*id) ids.push_back(thread.*id);
  }
  return ids;
}

class Sweep {
 public:
  Sweep(const std::vector<SweptThread>& threads, const SweepSources& sources,
        SweepProgress* progress)
      : thread_order_(ids_of(threads, &SweptThread::thread_id)),
        process_order_(ids_of(threads, &SweptThread::process_id)),
        state_(reader<uint8_t>(sources, kThreadState, progress)),
        operation_(reader<int32_t>(sources, kOperation, progress)),
        native_(reader<uint8_t>(sources, kNativeCall, progress)),
        wait_(reader<uint8_t>(sources, kWait, progress)),
        cuda_(reader<uint8_t>(sources, kCudaCall, progress)),
        busy_(reader<uint8_t>(sources, kGpuActivity, progress)),
        stretches_(&totals_, busy_) {}

  SweepResult run(const std::vector<SweptThread>& threads, Bounds bounds) {
    int32_t process = IdOrder::kUnknown;
    for (const SweptThread& thread : threads) {
      if (process_order_.place_of(thread.process_id) != process) {
        process = process_order_.place_of(thread.process_id);
        busy_.enter(process, bounds);
      }
      bounds.life_start_ns = thread.start_ns;
      bounds.life_end_ns = thread.end_ns;
      sweep_thread(thread, bounds);
    }
    result_.faults = {state_.faults(), operation_.faults(), native_.faults(),
                      wait_.faults(),  cuda_.faults(),      RowFaults{}};
    result_.faults[kGpuActivity].reversed = busy_.reversed();
    return std::move(result_);
  }

 private:
  template <typename Value>
  RowReader<Value> reader(const SweepSources& sources, SweepTable table, SweepProgress* progress) {
    return RowReader<Value>(sources[table].get(), kTableNames[table],
                            table == kGpuActivity ? &process_order_ : &thread_order_, progress);
  }

  void sweep_thread(const SweptThread& thread, const Bounds& bounds) {
    enter(thread, bounds);
    if (bounds.start_ns() < bounds.end_ns()) {
      stretches_.enter(bounds.start_ns(), thread.gpu_is_measured);
      pass(bounds.start_ns(), bounds.end_ns());
      result_.ends.push_back({thread.thread_id, stretches_.leave(bounds.end_ns())});
    }
    state_.leave();
    operation_.leave();
    native_.leave();
    wait_.leave();
    cuda_.leave();
    totals_.drain([&](const KeyTotal& total) {
      result_.overlap.push_back({thread.thread_id, total});
    });
    transitions_.drain([&](const KeyTotal& total) {
      result_.transitions.push_back({thread.thread_id, total});
    });
  }

  void enter(const SweptThread& thread, const Bounds& bounds) {
    const int32_t place = thread_order_.place_of(thread.thread_id);
    state_.enter(place, bounds, thread.state_is_measured ? kStateLost : kStateNotMeasured);
    operation_.enter(place, bounds, 0);
    native_.enter(place, bounds, 0);
    wait_.enter(place, bounds, 0);
    cuda_.enter(place, bounds);
  }

  // Visits every instant at which something changes.
  void pass(int64_t now_ns, int64_t end_ns) {
    while (now_ns < end_ns) {
      if (state_.next_ns() == now_ns) state_.step(now_ns);
      if (wait_.next_ns() == now_ns) wait_.step(now_ns);
      if (operation_.next_ns() == now_ns) operation_.step(now_ns);
      if (std::min(native_.next_ns(), cuda_.next_ns()) == now_ns) step_calls(now_ns);
      stretches_.change(key(now_ns), now_ns);
      now_ns = std::min({state_.next_ns(), wait_.next_ns(), operation_.next_ns(), native_.next_ns(),
                         cuda_.next_ns()});
    }
  }

  // Closes calls, then opens others; of two tables the call that lasts longer is around the other.
  void step_calls(int64_t now_ns) {
    native_.close(now_ns);
    while (true) {
      const bool native_starts = native_.start_ns() == now_ns;
      const bool cuda_starts = cuda_.start_ns() == now_ns;
      if (!native_starts && !cuda_starts) break;
      if (native_starts && (!cuda_starts || native_.end_ns() >= cuda_.end_ns())) {
        count_entry(native_.value(), native_.end_ns(), now_ns);
        native_.open_row();
      } else {
        count_entry(kCudaApi, cuda_.end_ns(), now_ns);
        cuda_.open_row();
      }
    }
    native_.set_next();
    cuda_.set_next(now_ns);
  }

  void count_entry(uint8_t to_layer, int64_t end_ns, int64_t now_ns) {
    const uint8_t from_layer = layer(now_ns);
    if (from_layer == to_layer || end_ns < now_ns) return;
    const uint64_t key = path() << 32 | static_cast<uint64_t>(from_layer) << 8 | to_layer;
    transitions_.add(key, 0, 1, now_ns, now_ns);
  }

  uint64_t path() const { return static_cast<uint32_t>(operation_.current()); }

  uint8_t layer(int64_t now_ns) const {
    return cuda_.is_open(now_ns) ? kCudaApi : native_.current();
  }

  uint64_t key(int64_t now_ns) const {
    const uint8_t state = state_.current();
    uint8_t wait = wait_.current();
    if (wait == 0 && cuda_.is_sync(now_ns)) wait = kWaitGpu;
    if (state <= kRunnable) wait = 0;
    return path() << 32 | static_cast<uint64_t>(state) << 24 |
           static_cast<uint64_t>(layer(now_ns)) << 16 | static_cast<uint64_t>(wait) << 8;
  }

  IdOrder thread_order_;
  IdOrder process_order_;
  InnermostTrack<uint8_t, false> state_;
  InnermostTrack<int32_t, true> operation_;
  InnermostTrack<uint8_t, true> native_;
  InnermostTrack<uint8_t, false> wait_;
  CudaTrack cuda_;
  GpuBusy busy_;
  KeyTotals totals_;
  KeyTotals transitions_;
  Stretches stretches_;
  SweepResult result_;
};

}  // namespace

SweepResult sweep_threads(const std::vector<SweptThread>& threads, int64_t window_start_ns,
                          int64_t window_end_ns, const SweepSources& sources,
                          SweepProgress* progress) {
  Bounds bounds;
  bounds.window_start_ns = window_start_ns;
  bounds.window_end_ns = window_end_ns;
  return Sweep(threads, sources, progress).run(threads, bounds);
}

}  // namespace rls
