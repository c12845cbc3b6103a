// Sums per key, for few or many keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rls {

struct KeyTotal {
  uint64_t key = 0;
  int64_t time_ns = 0;
  int64_t count = 0;  // 0: the slot is free
  int64_t first_ns = 0;
  int64_t last_ns = 0;
};

// Open addressing: the paths that meet with a state are few of all there could be.
class KeyTotals {
 public:
  KeyTotals() : slots_(kSmallest) {}

  // Adds `count` stretches of one key that take time_ns within [first_ns, last_ns).
  void add(uint64_t key, int64_t time_ns, int64_t count, int64_t first_ns, int64_t last_ns) {
    KeyTotal& slot = find(key);
    slot.time_ns += time_ns;
    slot.count += count;
    slot.last_ns = last_ns;
    if (slot.count == count) insert(slot, key, first_ns);
  }

  // Hands over what was added, in no order, and starts anew.
  template <typename Take>
  void drain(Take take) {
    for (KeyTotal& slot : slots_) {
      if (slot.count == 0) continue;
      take(slot);
      slot = KeyTotal{};
    }
    used_ = 0;
    if (slots_.size() > kLargestKept) {
      slots_ = std::vector<KeyTotal>(kSmallest);
      shift_ = kSmallestShift;
    }
  }

 private:
  static constexpr std::size_t kSmallest = 512;
  static constexpr int kSmallestShift = 64 - 9;
  // A larger table would cost every following thread a walk through it.
  static constexpr std::size_t kLargestKept = 1 << 14;

  KeyTotal& find(uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);
    while (slots_[at].key != key && slots_[at].count != 0) at = (at + 1) & mask;
    return slots_[at];
  }

  void insert(KeyTotal& slot, uint64_t key, int64_t first_ns) {
    slot.key = key;
    slot.first_ns = first_ns;
    if (++used_ * 2 > slots_.size()) grow();
  }

  void grow() {
    std::vector<KeyTotal> old(slots_.size() * 2);
    old.swap(slots_);
    --shift_;
    for (const KeyTotal& slot : old) {
      if (slot.count != 0) find(slot.key) = slot;
    }
  }

  std::vector<KeyTotal> slots_;
  int shift_ = kSmallestShift;
  std::size_t used_ = 0;
};

}  // namespace rls
