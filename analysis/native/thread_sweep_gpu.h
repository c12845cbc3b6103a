// When any GPU worked for a process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "thread_sweep_rows.h"

namespace rls {

// An edge of GPU busy time. Edges rise strictly; an odd number of edges before an instant: busy.
struct GpuEdge {
  int64_t at_ns;
  // Busy time until an instant t between the edge before and this one: offset_ns while idle, and
  // offset_ns + t while busy.
  int64_t offset_ns;
};

// The union of the activities of one process.
class GpuBusy {
 public:
  explicit GpuBusy(RowReader<uint8_t> reader) : reader_(std::move(reader)) {}

  // Reads the activities of the process at `place`; places must rise from call to call.
  void enter(int32_t place, const Bounds& bounds);

  // Between one at kAlways and one at kNever.
  const std::vector<GpuEdge>& edges() const { return edges_; }
  int64_t reversed() const { return reversed_; }

 private:
  struct Stretch {
    int64_t start_ns;
    int64_t end_ns;
  };

  void find_edges();

  RowReader<uint8_t> reader_;
  std::vector<Stretch> stretches_;  // after one that is none
  std::vector<GpuEdge> edges_;
  int64_t reversed_ = 0;
};

// A place among the edges that moves forward in time.
class GpuCursor {
 public:
  // Moves to an instant; edges as of GpuBusy.
  void enter(const std::vector<GpuEdge>& edges, int64_t now_ns) {
    edges_ = edges.data() + 1;
    end_ = edges.data() + edges.size() - 1;
    const auto is_before = [](const GpuEdge& edge, int64_t at_ns) { return edge.at_ns < at_ns; };
    edge_ = std::lower_bound(edges_, end_, now_ns, is_before);
  }

  // Number of edges passed; odd: busy.
  std::size_t passed() const { return static_cast<std::size_t>(edge_ - edges_); }
  int64_t edge_ns(std::size_t edge) const { return edges_[edge].at_ns; }
  // The edge that was passed last.
  int64_t last_edge_ns() const { return edge_[-1].at_ns; }
  // Busy time before an instant that no edge is between here and.
  int64_t busy_ns(int64_t now_ns) const {
    return edge_->offset_ns + (now_ns & -static_cast<int64_t>(passed() & 1U));
  }

  // Passes an edge at this very instant.
  void pass_at(int64_t now_ns) { edge_ += edge_->at_ns == now_ns; }

  // Passes the edges before an instant. Nobody can predict whether there is one: the first two are
  // passed without a branch.
  void pass_before(int64_t now_ns) {
    edge_ += edge_->at_ns < now_ns;
    edge_ += edge_->at_ns < now_ns;
    if (edge_->at_ns < now_ns) leap_before(now_ns);
  }

 private:
  // On a thread where nothing happens there may be thousands.
  void leap_before(int64_t now_ns) {
    std::ptrdiff_t step = 1;
    while (end_ - edge_ > step && edge_[step].at_ns < now_ns) {
      edge_ += step;
      step *= 2;
    }
    const GpuEdge* const last = std::min(edge_ + step, end_);
    const auto is_before = [](const GpuEdge& edge, int64_t at_ns) { return edge.at_ns < at_ns; };
    edge_ = std::lower_bound(edge_, last, now_ns, is_before);
  }

  const GpuEdge* edges_ = nullptr;
  const GpuEdge* end_ = nullptr;  // the edge at kNever
  const GpuEdge* edge_ = nullptr;
};

}  // namespace rls
