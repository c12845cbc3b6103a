// Sums per key, for few or many keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "thread_sweep_gpu.h"

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
  static constexpr uint64_t kFree = ~uint64_t{0};  // no key: the slot holds none

  // The parity of the edge that the GPU comes to next: see GpuEdges.
  static constexpr std::size_t kBusy = 0;
  static constexpr std::size_t kIdle = 1;

  uint64_t key = kFree;
  int64_t time_ns = 0;  // busy and idle
  int64_t busy_ns = 0;
  std::array<int64_t, 2> count{};
  std::array<int64_t, 2> last_ns{};
  std::size_t number = 0;  // of the key, in the order in which they were found
};

// Open addressing: of all keys there could be, a thread meets few.
class TotalsTable {
 public:
  TotalsTable() { clear(); }

  // The start of the first stretch; written once, so not in the slot.
  int64_t& first_ns(const KeyTotals& total, std::size_t kind) {
    return first_ns_[total.number][kind];
  }

  KeyTotals& find(uint64_t key) {
    std::size_t at = place_of(key);
    while (slots_[at].key != key) {
      if (slots_[at].key == KeyTotals::kFree) return insert(key);
      at = (at + 1) & mask_;
    }
    return slots_[at];
  }

  // Hands over what was added, in no order, and starts anew.
  template <typename Take>
  void drain(Take take) {
    for (const KeyTotals& slot : slots_) {
      if (slot.key != KeyTotals::kFree) take(slot);
    }
    clear();
  }

 private:
  static constexpr std::size_t kSmallest = 256;

  void clear() {
    slots_.assign(kSmallest, KeyTotals{});
    mask_ = kSmallest - 1;
    first_ns_.clear();
  }

  std::size_t place_of(uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 32) & mask_;
  }

  __attribute__((noinline)) KeyTotals& insert(uint64_t key) {
    first_ns_.emplace_back();
    if (first_ns_.size() * 2 > slots_.size()) grow();
    KeyTotals& slot = free_slot(key);
    slot.key = key;
    slot.number = first_ns_.size() - 1;
    return slot;
  }

  KeyTotals& free_slot(uint64_t key) {
    std::size_t at = place_of(key);
    while (slots_[at].key != KeyTotals::kFree) at = (at + 1) & mask_;
    return slots_[at];
  }

  void grow() {
    std::vector<KeyTotals> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const KeyTotals& slot : old) {
      if (slot.key != KeyTotals::kFree) free_slot(slot.key) = slot;
    }
  }

  std::vector<KeyTotals> slots_;
  std::size_t mask_ = 0;
  std::vector<std::array<int64_t, 2>> first_ns_;
};

}  // namespace rls
