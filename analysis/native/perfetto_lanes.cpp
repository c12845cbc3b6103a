#include "perfetto_lanes.h"

#include <algorithm>

namespace rls::timeline {

size_t Lanes::first_lane_for(int64_t end) const {
  if (room_[1] < end) return stacks_.size();
  size_t node = 1;
  while (node < leaves_) node = room_[2 * node] >= end ? 2 * node : 2 * node + 1;
  return node - leaves_;
}

void Lanes::set_room(size_t lane, int64_t until) {
  size_t node = leaves_ + lane;
  room_[node] = until;
  while (node > 1) {
    node /= 2;
    room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
  }
}

void Lanes::add_lane() {
  stacks_.emplace_back();
  if (stacks_.size() <= leaves_) return;
  leaves_ *= 2;
  room_.assign(2 * leaves_, INT64_MIN);
  for (size_t lane = 0; lane + 1 < stacks_.size(); ++lane) {
    room_[leaves_ + lane] = stacks_[lane].empty() ? INT64_MAX : stacks_[lane].back();
  }
  for (size_t node = leaves_ - 1; node > 0; --node) {
    room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
  }
}

}  // namespace rls::timeline
