// Sums per key, for few or many keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rls {

// What was found of one key.
struct KeyTotal {
  uint64_t key = 0;
  int64_t time_ns = 0;
  int64_t count = 0;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
};

// Of one key, while the GPU was busy and while it was idle. One line of the cache.
struct alignas(64) KeyTotals {
  // The parity of the edge that the GPU comes to next: see GpuEdges.
  static constexpr std::size_t kBusy = 0;
  static constexpr std::size_t kIdle = 1;

  int64_t time_ns = 0;  // busy and idle
  int64_t busy_ns = 0;
  int64_t count = 0;  // of intervals, busy and idle
  int64_t busy_count = 0;
  std::array<int64_t, 2> first_ns{};  // where there is a count
  std::array<int64_t, 2> last_ns{};

  int64_t count_of(std::size_t kind) const {
    return kind == kBusy ? busy_count : count - busy_count;
  }
};

// Of all keys there could be, a thread meets few. Keys that differ in their layer alone stand side
// by side: calls, which change most often, find theirs without a search.
class TotalsTable {
 public:
  static constexpr std::size_t kLayers = 8;
  static constexpr unsigned kLayerShift = 16;  // in a key

  // The place of a key with layer 0, which is always asked for by the same small number; those with
  // the other layers follow it.
  std::size_t find(std::size_t number, uint64_t key) {
    if (number >= places_.size() || places_[number] == kNone) return insert(number, key);
    return places_[number];
  }

  uint64_t key(std::size_t place) const {
    return keys_[place / kLayers] | uint64_t{place % kLayers} << kLayerShift;
  }

  // Until the next find().
  KeyTotals& operator[](std::size_t place) { return totals_[place]; }

  // Hands over what was added, with its key, and starts anew.
  template <typename Take>
  void drain(Take take) {
    for (std::size_t place = 0; place < totals_.size(); ++place) take(key(place), totals_[place]);
    places_.clear();
    keys_.clear();
    totals_.clear();
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  __attribute__((noinline)) std::size_t insert(std::size_t number, uint64_t key) {
    if (number >= places_.size()) places_.resize(number + 1, kNone);
    places_[number] = static_cast<uint32_t>(totals_.size());
    keys_.push_back(key);
    totals_.resize(totals_.size() + kLayers);
    return places_[number];
  }

  std::vector<uint32_t> places_;  // by number
  std::vector<uint64_t> keys_;    // with layer 0, in the order in which they were found
  std::vector<KeyTotals> totals_;
};

}  // namespace rls
