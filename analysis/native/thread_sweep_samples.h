// How many samples of a thread fell into each operation path, layer and GPU state.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "thread_sweep_gpu.h"
#include "thread_sweep_tracks.h"

namespace rls {

// Samples are instant events: their start is the instant.
class SampleTrack : public TrackRows<uint8_t> {
 public:
  explicit SampleTrack(RowReader<uint8_t> reader) : TrackRows(std::move(reader)) {}

  void enter(int32_t place, const Bounds& bounds) {
    TrackRows::enter(place, bounds, [] {});
  }

  // Tells what is known of the GPU from an instant on.
  void watch(const GpuBusy& busy, int64_t now_ns, bool gpu_is_measured) {
    gpu_is_measured_ = gpu_is_measured;
    gpu_.enter(busy.edges(), now_ns);
  }

  // Counts the samples before an instant, up to which `key` has held: the path in its upper half,
  // the layer in its third byte.
  void take_before(int64_t now_ns, uint64_t key) {
    for (; start_ns() < now_ns; reader_.advance()) {
      ++counts_[key | static_cast<uint64_t>(value()) << 8 | gpu_at(start_ns())];
    }
  }

  // Hands over the counts of the thread, in no order.
  template <typename Take>
  void drain(Take take) {
    for (const auto& [key, count] : counts_) take(key, count);
    counts_.clear();
  }

 private:
  uint64_t gpu_at(int64_t now_ns) {
    constexpr uint64_t kNotMeasured = 255;
    if (!gpu_is_measured_) return kNotMeasured;
    gpu_.pass(now_ns);
    return 1U - (gpu_.next() & 1U);
  }

  GpuCursor gpu_;
  bool gpu_is_measured_ = false;
  std::unordered_map<uint64_t, int64_t> counts_;
};

}  // namespace rls
