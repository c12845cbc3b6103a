// Puts the slices of one track on lanes, so that on each lane any two are nested or disjoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace rls::timeline {

// Slices come in order of start, of equal starts the longer first; each goes to the first lane that
// can take it. n slices cost O(n log n), also where they need many lanes.
class Lanes {
 public:
  // Closes what has ended at `start`, then opens a slice and returns its lane.
  // `closed(lane, end)` is called innermost first.
  template <typename Closed>
  size_t open(int64_t start, int64_t end, Closed closed) {
    while (!open_.empty() && open_.top().end <= start) close_first(closed);
    const size_t lane = first_lane_for(end);
    if (lane == stacks_.size()) add_lane();
    stacks_[lane].push_back(end);
    set_room(lane, end);
    open_.push({end, ++opened_, lane});
    return lane;
  }

  template <typename Closed>
  void close_all(Closed closed) {
    while (!open_.empty()) close_first(closed);
  }

 private:
  struct Open {
    int64_t end;
    uint64_t number;
    size_t lane;
    // The first to close stands on top: the earliest end, of these the one opened last.
    bool operator<(const Open& other) const {
      return end != other.end ? end > other.end : number < other.number;
    }
  };

  template <typename Closed>
  void close_first(Closed closed) {
    const Open first = open_.top();
    open_.pop();
    std::vector<int64_t>& stack = stacks_[first.lane];
    stack.pop_back();
    set_room(first.lane, stack.empty() ? INT64_MAX : stack.back());
    closed(first.lane, first.end);
  }

  size_t first_lane_for(int64_t end) const;
  void set_room(size_t lane, int64_t until);
  void add_lane();

  std::priority_queue<Open> open_;
  std::vector<std::vector<int64_t>> stacks_;
  // A tree of maxima over the lanes: until when a new slice may last. Leaves start at leaves_.
  std::vector<int64_t> room_ = std::vector<int64_t>(2, INT64_MIN);
  size_t leaves_ = 1;
  uint64_t opened_ = 0;
};

}  // namespace rls::timeline
