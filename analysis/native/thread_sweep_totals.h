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

// Of one key, while the GPU was idle [0] and while it was busy [1].
struct KeyTotals {
  static constexpr uint64_t kFree = ~uint64_t{0};  // no key: the slot holds none

  uint64_t key = kFree;
  int64_t time_ns = 0;  // idle and busy
  int64_t busy_ns = 0;
  std::array<int64_t, 2> count{};
  std::array<int64_t, 2> first_ns{kNever, kNever};
  std::array<int64_t, 2> last_ns{};
};

// Open addressing: of all keys there could be, a thread meets few.
class TotalsTable {
 public:
  TotalsTable() { clear(); }

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
    used_ = 0;
  }

  std::size_t place_of(uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 32) & mask_;
  }

  KeyTotals& insert(uint64_t key) {
    if (++used_ * 2 > slots_.size()) grow();
    KeyTotals& slot = free_slot(key);
    slot.key = key;
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
  std::size_t used_ = 0;
};

}  // namespace rls
