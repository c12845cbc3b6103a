// When any GPU worked for a process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "thread_sweep_rows.h"

namespace rls {

// The union of the activities of one process, as edges: instants that rise strictly, of which the
// odd ones begin a busy stretch. Edge 0 is none, at kAlways; the last is at kNever.
struct GpuEdges {
  std::vector<int64_t> at_ns{kAlways, kNever};
  // Busy time until an instant t between the edge before and this one: the offset while idle, and
  // offset + t while busy.
  std::vector<int64_t> offset_ns{0, 0};
};

class GpuBusy {
 public:
  explicit GpuBusy(RowReader<uint8_t> reader) : reader_(std::move(reader)) {}

  // Reads the activities of the process at `place`; places must rise from call to call.
  void enter(int32_t place, const Bounds& bounds);

  const GpuEdges& edges() const { return edges_; }
  int64_t reversed() const { return reversed_; }

 private:
  struct Stretch {
    int64_t start_ns;
    int64_t end_ns;
  };

  void find_edges();

  RowReader<uint8_t> reader_;
  std::vector<Stretch> stretches_;  // after one that is none
  GpuEdges edges_;
  int64_t reversed_ = 0;
};

// A place among the edges that moves forward in time.
class GpuCursor {
 public:
  // Moves to the first edge at or after an instant.
  void enter(const GpuEdges& edges, int64_t now_ns) {
    at_ns_ = edges.at_ns.data();
    offset_ns_ = edges.offset_ns.data();
    count_ = edges.at_ns.size();
    next_ =
        static_cast<std::size_t>(std::lower_bound(at_ns_ + 1, at_ns_ + count_, now_ns) - at_ns_);
  }

  // The edge to pass next. The GPU is busy before it if its number is even.
  std::size_t next() const { return next_; }
  int64_t at_ns(std::size_t edge) const { return at_ns_[edge]; }
  // Busy time before an instant that no edge is between here and.
  int64_t busy_ns(int64_t now_ns) const {
    return offset_ns_[next_] + (now_ns & (static_cast<int64_t>(next_ & 1U) - 1));
  }

  // Passes an edge at this very instant.
  void pass_at(int64_t now_ns) { next_ += at_ns_[next_] == now_ns; }

  // Passes the edges before an instant. Nobody can predict whether there is one: the first two are
  // passed without a branch.
  void pass_before(int64_t now_ns) {
    next_ += at_ns_[next_] < now_ns;
    next_ += at_ns_[next_] < now_ns;
    if (at_ns_[next_] < now_ns) leap_before(now_ns);
  }

 private:
  // On a thread where nothing happens there may be thousands.
  __attribute__((noinline)) void leap_before(int64_t now_ns) {
    std::size_t step = 1;
    while (next_ + step < count_ && at_ns_[next_ + step] < now_ns) {
      next_ += step;
      step *= 2;
    }
    const int64_t* const past = at_ns_ + std::min(next_ + step, count_ - 1);
    next_ = static_cast<std::size_t>(std::lower_bound(at_ns_ + next_, past, now_ns) - at_ns_);
  }

  const int64_t* at_ns_ = nullptr;
  const int64_t* offset_ns_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 1;
};

}  // namespace rls
