// Turns the changes on a thread, and those of the GPU, into maximal stretches with one key.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "thread_sweep_rows.h"
#include "thread_sweep_totals.h"

namespace rls {

// When any GPU worked for one process: a union, as edges that rise strictly.
class GpuBusy {
 public:
  explicit GpuBusy(RowReader<uint8_t> reader) : reader_(std::move(reader)) {}

  // Reads the activities of the process at `place`; places must rise from call to call.
  void enter(int32_t place, const Bounds& bounds);

  // Edge 2i begins busy stretch i, edge 2i + 1 ends it.
  const std::vector<int64_t>& edges() const { return edges_; }
  // Busy time between two edges.
  int64_t busy_ns(std::size_t from_edge, std::size_t to_edge) const {
    return busy_until(to_edge) - busy_until(from_edge);
  }
  int64_t reversed() const { return reversed_; }

 private:
  int64_t busy_until(std::size_t edge) const { return busy_before_ns_[(edge + 1) / 2]; }

  RowReader<uint8_t> reader_;
  std::vector<int64_t> edges_;
  std::vector<int64_t> busy_before_ns_;  // by busy stretch, and one past the last
  int64_t reversed_ = 0;
};

// The first and last keys of a thread: how the parts of a thread that was cut are joined.
struct ThreadEnds {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint64_t first_key = 0;
  uint64_t last_key = 0;
};

class Stretches {
 public:
  static constexpr uint64_t kNotMeasured = 255;

  Stretches(KeyTotals* totals, const GpuBusy& busy) : totals_(totals), busy_(busy) {}

  void enter(int64_t start_ns, bool gpu_is_measured);

  // From now_ns on, all but the GPU is as `key` says (its lowest byte, the GPU, is 0).
  void change(uint64_t key, int64_t now_ns) {
    if (key == key_) return;
    if (now_ns > now_ns_) pass(now_ns);
    key_ = key;
  }

  ThreadEnds leave(int64_t end_ns);

 private:
  // More edges of the GPU than this without any other change are summed at once.
  static constexpr std::size_t kMany = 8;

  // Writes what lies between the last change and now_ns.
  void pass(int64_t now_ns) {
    if (!gpu_is_measured_) {
      turn(key_ | kNotMeasured, now_ns_);
      now_ns_ = now_ns;
      return;
    }
    const int64_t* edges = busy_.edges().data();
    const std::size_t count = busy_.edges().size();
    // Both kinds of change at one instant: no stretch lies between them.
    if (edge_ < count && edges[edge_] == now_ns_) ++edge_;
    turn(key_ | (edge_ & 1U), now_ns_);
    if (edge_ + kMany < count && edges[edge_ + kMany] < now_ns) pass_many(now_ns);
    for (; edge_ < count && edges[edge_] < now_ns; ++edge_) {
      turn(key_ | ((edge_ + 1) & 1U), edges[edge_]);
    }
    now_ns_ = now_ns;
  }

  void turn(uint64_t key, int64_t now_ns) {
    if (key == run_key_ && has_run_) return;
    if (has_run_) {
      end_run(now_ns);
    } else {
      ends_.first_key = key;
      has_run_ = true;
    }
    run_key_ = key;
    run_start_ns_ = now_ns;
  }

  void end_run(int64_t now_ns) {
    totals_->add(run_key_, now_ns - run_start_ns_, 1, run_start_ns_, now_ns);
  }

  void pass_many(int64_t now_ns);

  KeyTotals* totals_;
  const GpuBusy& busy_;
  bool gpu_is_measured_ = false;
  bool has_run_ = false;
  uint64_t key_ = 0;
  int64_t now_ns_ = 0;
  uint64_t run_key_ = 0;
  int64_t run_start_ns_ = 0;
  std::size_t edge_ = 0;
  ThreadEnds ends_;
};

}  // namespace rls
