#include "thread_sweep.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "thread_sweep_gpu.h"
#include "thread_sweep_intervals.h"
#include "thread_sweep_paths.h"
#include "thread_sweep_samples.h"
#include "thread_sweep_tracks.h"

namespace rls {
namespace {

constexpr uint8_t kRunnable = 1;  // 0 running, 1 runnable: neither waits for anything but a CPU
constexpr uint8_t kStateLost = 4;
constexpr uint8_t kStateNotMeasured = 255;
constexpr uint64_t kCudaApi = 4;
constexpr uint64_t kWaitGil = 1;
constexpr uint64_t kWaitGpu = 2;

std::vector<int32_t> ids_of(const std::vector<SweptThread>& threads, int32_t SweptThread::*id) {
  std::vector<int32_t> ids;
  for (const SweptThread& thread : threads) {
    if (ids.empty() || ids.back() != thread.*id) ids.push_back(thread.*id);
  }
  return ids;
}

void check_lives(const std::vector<SweptThread>& threads) {
  for (const SweptThread& thread : threads) {
    if (thread.start_ns < -kLastTime || thread.end_ns > kLastTime) {
      throw ColumnError("thread holds a time beyond 146 years");
    }
  }
}

// Segments: NoSegments, so that totals cost nothing more, or a SegmentWriter.
template <typename Segments>
class Sweep {
 public:
  Sweep(const std::vector<SweptThread>& threads, const ProbedSince& probed_ns,
        const SweepSources& sources, SweepProgress* progress, Segments* segments)
      : probed_ns_(probed_ns),
        all_probed_ns_(*std::max_element(probed_ns.begin(), probed_ns.end())),
        thread_order_(ids_of(threads, &SweptThread::thread_id)),
        process_order_(ids_of(threads, &SweptThread::process_id)),
        state_(reader<uint8_t>(sources, kThreadState, progress)),
        operation_(reader<int32_t>(sources, kOperation, progress)),
        native_(reader<uint8_t>(sources, kNativeCall, progress)),
        wait_(reader<uint8_t>(sources, kWait, progress)),
        cuda_(reader<uint8_t>(sources, kCudaCall, progress)),
        busy_(reader<uint8_t>(sources, kGpuActivity, progress)),
        samples_(reader<uint8_t>(sources, kCpuSample, progress)),
        intervals_(segments) {}

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
    result_.faults = {state_.faults(), operation_.faults(), native_.faults(), wait_.faults(),
                      cuda_.faults(),  RowFaults{},         samples_.faults()};
    result_.faults[kGpuActivity].reversed = busy_.reversed();
    return std::move(result_);
  }

 private:
  // Layers are three bits wide in the counts of transitions, and a seventh tells is_probed.
  static constexpr std::size_t kTransitions = 128;
  static constexpr uint64_t kAllLayers = 255;
  // Waits times states, or that these were not measured: four bits and three.
  static constexpr std::size_t kOthers = 128;
  static constexpr std::array<uint8_t, kTables> kLargestValues = {3, 255, 6, 9, 255, 255, 6};

  template <typename Value>
  RowReader<Value> reader(const SweepSources& sources, SweepTable table, SweepProgress* progress) {
    return RowReader<Value>(sources[table].get(), kTableNames[table],
                            table == kGpuActivity ? &process_order_ : &thread_order_, progress,
                            kLargestValues[table]);
  }

  void sweep_thread(const SweptThread& thread, const Bounds& bounds) {
    enter(thread, bounds);
    if (bounds.start_ns() < bounds.end_ns()) {
      const int64_t from_ns = std::clamp(thread.gpu_from_ns, bounds.start_ns(), bounds.end_ns());
      sweep_part(thread.thread_id, bounds.start_ns(), from_ns, false);
      sweep_part(thread.thread_id, from_ns, bounds.end_ns(), true);
      write_transitions(thread.thread_id);
      write_samples(thread.thread_id);
    }
    state_.leave();
    operation_.leave();
    native_.leave();
    wait_.leave();
    cuda_.leave();
    samples_.leave();
  }

  // An interval of a thread in which the GPU was measured all the time, or never. What was found of
  // two of them is joined like the parts of a thread that was cut: no key is in both.
  void sweep_part(int32_t thread_id, int64_t start_ns, int64_t end_ns, bool gpu_is_measured) {
    if (start_ns == end_ns) return;
    intervals_.enter(thread_id, busy_, start_ns, gpu_is_measured);
    samples_.watch(busy_, start_ns, gpu_is_measured);
    pass(start_ns, end_ns);
    result_.ends.push_back({thread_id, intervals_.leave(end_ns)});
    intervals_.drain([&](const KeyTotal& total) { result_.overlap.push_back({thread_id, total}); });
  }

  void enter(const SweptThread& thread, const Bounds& bounds) {
    const int32_t place = thread_order_.place_of(thread.thread_id);
    state_.enter(place, bounds, thread.state_is_measured ? kStateLost : kStateNotMeasured);
    operation_.enter(place, bounds, 0);
    native_.enter(place, bounds, 0);
    wait_.enter(place, bounds, 0);
    cuda_.enter(place, bounds);
    samples_.enter(place, bounds);
    paths_.restart();
    transitions_.clear();
  }

  // Visits every instant at which something but the GPU changes. Calls are most of them.
  void pass(int64_t now_ns, int64_t end_ns) {
    find_path();
    step_others(now_ns);
    step_calls(now_ns);
    intervals_.begin(others_ + layer());
    int64_t native_ns = native_.next_ns();
    int64_t cuda_ns = cuda_.next_ns();
    while (true) {
      now_ns = std::min({native_ns, cuda_ns, next_other_ns_});
      if (samples_.start_ns() < now_ns) take_samples(std::min(now_ns, end_ns));
      if (now_ns >= end_ns) return;
      if (now_ns == next_other_ns_) step_others(now_ns);
      if (now_ns == cuda_ns) {
        step_calls(now_ns);
        cuda_ns = cuda_.next_ns();
        native_ns = native_.next_ns();
      } else if (now_ns == native_ns) {
        native_.close(now_ns);
        while (native_.start_ns() == now_ns) enter_native(now_ns);
        native_ns = native_.next_ns();
      }
      intervals_.change(others_ + layer(), now_ns);
    }
  }

  // Those since the last change: seldom.
  __attribute__((noinline)) void take_samples(int64_t now_ns) {
    samples_.take_before(now_ns, path_bits(operation_.current()) | layer() << 16);
  }

  // All but the calls.
  void step_others(int64_t now_ns) {
    if (state_.next_ns() == now_ns) state_.step(now_ns);
    if (wait_.next_ns() == now_ns) wait_.step(now_ns);
    if (operation_.next_ns() == now_ns) {
      operation_.step(now_ns);
      find_path();
    }
    find_others();
    next_other_ns_ = std::min({state_.next_ns(), wait_.next_ns(), operation_.next_ns()});
  }

  // Closes calls, then opens others; of two tables the call that lasts longer is around the other.
  void step_calls(int64_t now_ns) {
    const bool was_sync = cuda_.is_sync();
    cuda_.close(now_ns);
    native_.close(now_ns);
    while (cuda_.start_ns() == now_ns) {
      while (native_.start_ns() == now_ns && native_.end_ns() >= cuda_.end_ns()) {
        enter_native(now_ns);
      }
      if (cuda_.end_ns() >= now_ns) count_entry(kCudaApi);
      cuda_.open_row();
    }
    while (native_.start_ns() == now_ns) enter_native(now_ns);
    cuda_.find_next();
    if (cuda_.is_sync() != was_sync) find_others();
  }

  void enter_native(int64_t now_ns) {
    if (native_.end_ns() >= now_ns) count_entry(native_.value());
    native_.open_row();
  }

  void count_entry(uint64_t to_layer) {
    const uint64_t is_probed = probed_layers_ >> to_layer & 1;
    ++path_transitions_[is_probed * 64 + layer() * 8 + to_layer];
  }

  uint64_t layer() const { return cuda_.is_open() ? kCudaApi : native_.current(); }

  void find_path() {
    path_number_ = paths_.number(operation_.current());
    if (transitions_.size() <= path_number_ * kTransitions) {
      transitions_.resize((path_number_ + 1) * kTransitions);
    }
    path_transitions_ = &transitions_[path_number_ * kTransitions];
    probed_layers_ = kAllLayers;
    if (operation_.begun_ns() < all_probed_ns_) find_probed_layers();
  }

  // While the recorder is still at its start: seldom.
  __attribute__((noinline)) void find_probed_layers() {
    probed_layers_ = 0;
    for (std::size_t layer = 0; layer < probed_ns_.size(); ++layer) {
      probed_layers_ |= uint64_t{operation_.begun_ns() >= probed_ns_[layer]} << layer;
    }
  }

  // What calls do not change, but for those that wait for the GPU.
  void find_others() {
    const uint64_t state = state_.current();
    uint64_t wait = wait_.current();
    // How the driver waits, by a futex or a poll, is its own business.
    if (wait != kWaitGil && cuda_.is_sync()) wait = kWaitGpu;
    if (state <= kRunnable) wait = 0;
    others_ = intervals_.place_of(path_number_ * kOthers + wait * 8 + state % 8,
                                  path_bits(operation_.current()) | state << 24 | wait << 8);
  }

  void write_transitions(int32_t thread_id) {
    for (std::size_t i = 0; i < transitions_.size(); ++i) {
      const uint64_t is_probed = i % kTransitions / 64;
      const uint64_t from = i % 64 / 8;
      const uint64_t to = i % 8;
      if (transitions_[i] == 0 || from == to) continue;
      KeyTotal total;
      total.key = path_bits(paths_.path(i / kTransitions)) | is_probed << 16 | from << 8 | to;
      total.count = transitions_[i];
      result_.transitions.push_back({thread_id, total});
    }
  }

  void write_samples(int32_t thread_id) {
    samples_.drain([&](uint64_t key, int64_t count) {
      KeyTotal total;
      total.key = key;
      total.count = count;
      result_.samples.push_back({thread_id, total});
    });
  }

  static uint64_t path_bits(int32_t path) {
    return static_cast<uint64_t>(static_cast<uint32_t>(path)) << 32;
  }

  ProbedSince probed_ns_;
  int64_t all_probed_ns_;
  IdOrder thread_order_;
  IdOrder process_order_;
  InnermostTrack<uint8_t, false> state_;
  InnermostTrack<int32_t, true, BegunRow<int32_t>> operation_;
  InnermostTrack<uint8_t, true> native_;
  InnermostTrack<uint8_t, false> wait_;
  CudaTrack cuda_;
  GpuBusy busy_;
  SampleTrack samples_;
  Intervals<Segments> intervals_;
  // The place of the totals while no call is open, but for the wait.
  std::size_t others_ = 0;
  int64_t next_other_ns_ = kNever;
  // By path number, then is_probed * 64 + from_layer * 8 + to_layer.
  PathNumbers paths_;
  std::size_t path_number_ = 0;  // of the innermost operation
  std::vector<uint32_t> transitions_;
  uint32_t* path_transitions_ = nullptr;
  // By layer, a bit: whether all calls into it since the innermost operation began were recorded.
  uint64_t probed_layers_ = 0;
  SweepResult result_;
};

}  // namespace

SweepResult sweep_threads(const std::vector<SweptThread>& threads, int64_t window_start_ns,
                          int64_t window_end_ns, const ProbedSince& probed_ns,
                          const SweepSources& sources, SweepProgress* progress,
                          SegmentWriter* segments) {
  check_lives(threads);
  Bounds bounds;
  bounds.window_start_ns = window_start_ns;
  bounds.window_end_ns = window_end_ns;
  if (segments != nullptr) {
    return Sweep(threads, probed_ns, sources, progress, segments).run(threads, bounds);
  }
  NoSegments none;
  return Sweep(threads, probed_ns, sources, progress, &none).run(threads, bounds);
}

}  // namespace rls
