// When any GPU worked for a process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "thread_sweep_rows.h"

namespace rls {

// Nanoseconds that are written before they are read: room that is not used costs no time.
class NsBuffer {
 public:
  explicit NsBuffer(std::size_t size) : ns_(new int64_t[size]), size_(size) {}

  int64_t* data() { return ns_.get(); }
  const int64_t* data() const { return ns_.get(); }

  // Makes room for so many, of which the first `used` are kept.
  void make_room(std::size_t size, std::size_t used) {
    if (size <= size_) return;
    NsBuffer larger(std::max(size, 2 * size_));
    std::copy_n(data(), used, larger.data());
    *this = std::move(larger);
  }

 private:
  std::unique_ptr<int64_t[]> ns_;
  std::size_t size_;
};

// The union of the activities of one process, as edges: instants that rise strictly, of which the
// odd ones begin a busy interval. Edge 0 is none, at kAlways; the last is at kNever, and so are
// those after it that a cursor may look at.
class GpuEdges {
 public:
  // So many from the edge that a cursor comes to next.
  static constexpr std::size_t kSeenAtOnce = 11;

  GpuEdges() { finish(0); }

  std::size_t count() const { return count_; }
  const int64_t* at_ns() const { return at_ns_.data(); }
  // Of each busy interval: the busy time before it.
  const int64_t* busy_ns() const { return busy_ns_.data(); }

  // Makes room for so many edges after one; returns where they are to be written, by number.
  int64_t* room_after(std::size_t edge, std::size_t edges) {
    at_ns_.make_room(edge + edges + 1 + kSeenAtOnce, edge + 1);
    return at_ns_.data();
  }

  // Once all are written: tells which is the last, the end of a busy interval (0: there is none).
  void finish(std::size_t last_edge);

 private:
  NsBuffer at_ns_{1 + kSeenAtOnce};
  NsBuffer busy_ns_{1};
  std::size_t count_ = 0;
};

class GpuBusy {
 public:
  explicit GpuBusy(RowReader<uint8_t> reader) : reader_(std::move(reader)) {}

  // Reads the activities of the process at `place`; places must rise from call to call.
  void enter(int32_t place, const Bounds& bounds);

  const GpuEdges& edges() const { return edges_; }
  int64_t reversed() const { return reversed_; }

 private:
  RowReader<uint8_t> reader_;
  GpuEdges edges_;
  int64_t reversed_ = 0;
};

// A place among the edges that moves forward in time.
class GpuCursor {
 public:
  // Moves to the first edge after an instant.
  void enter(const GpuEdges& edges, int64_t now_ns) {
    at_ns_ = edges.at_ns();
    busy_before_ns_ = edges.busy_ns();
    count_ = edges.count();
    next_ =
        static_cast<std::size_t>(std::upper_bound(at_ns_ + 1, at_ns_ + count_, now_ns) - at_ns_);
  }

  // The edge to pass next. The GPU is busy before it if its number is even.
  std::size_t next() const { return next_; }
  int64_t at_ns(std::size_t edge) const { return at_ns_[edge]; }
  // Busy time before an instant at this edge, or between the edge before and this one.
  int64_t busy_ns(std::size_t edge, int64_t now_ns) const {
    const int64_t is_busy = static_cast<int64_t>(edge & 1U) - 1;  // a mask
    return busy_before_ns_[(edge - 1) / 2] + ((now_ns & is_busy) - (at_ns_[edge - 1] & is_busy));
  }

  // Passes the edges until an instant, and one at the instant itself; returns the first that is not
  // before it. Nobody can predict whether there is one: the first two are passed without a branch.
  std::size_t pass(int64_t now_ns) {
    const int64_t* const at_ns = at_ns_ + next_;
    std::size_t edge = next_ + std::size_t{at_ns[0] < now_ns} + std::size_t{at_ns[1] < now_ns};
    if (__builtin_expect(at_ns[2] < now_ns, 0)) edge = leap_to(now_ns);
    next_ = edge + std::size_t{at_ns_[edge] == now_ns};
    return edge;
  }

 private:
  // The first edge that is not before an instant, of which the next three are. Mostly it is one of
  // those looked at here, also without a branch; but on a thread where nothing happens there may be
  // thousands.
  __attribute__((noinline)) std::size_t leap_to(int64_t now_ns) const {
    constexpr std::size_t kPassed = 3;
    constexpr std::size_t kNear = GpuEdges::kSeenAtOnce - kPassed;
    std::size_t edge = next_ + kPassed;
    std::size_t before = 0;
    for (std::size_t i = 0; i < kNear; ++i) before += std::size_t{at_ns_[edge + i] < now_ns};
    edge += before;
    if (before < kNear) return edge;
    std::size_t step = kNear;
    while (edge + step < count_ && at_ns_[edge + step] < now_ns) {
      edge += step;
      step *= 2;
    }
    const int64_t* const past = at_ns_ + std::min(edge + step, count_ - 1);
    return static_cast<std::size_t>(std::lower_bound(at_ns_ + edge, past, now_ns) - at_ns_);
  }

  const int64_t* at_ns_ = nullptr;
  const int64_t* busy_before_ns_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 1;
};

}  // namespace rls
