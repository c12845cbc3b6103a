// Hash -> id, with open addressing. Eight bytes a place: it stays in the cache where rows do not.
#pragma once

#include <cstdint>
#include <vector>

namespace rls {

using RowId = std::uint32_t;
constexpr RowId kNoRow = UINT32_MAX;

inline std::uint64_t Mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

class FlatIndex {
 public:
  FlatIndex() : places_(16) {}

  // The id under `hash` for which is_it(id) holds, or kNoRow.
  template <class IsIt>
  RowId Find(std::uint64_t hash, IsIt is_it) const {
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = tag >> shift_;; at = (at + 1) & mask) {
      const Place& place = places_[at];
      if (place.id == kNoRow) return kNoRow;
      if (place.tag == tag && is_it(place.id)) return place.id;
    }
  }

  // `id` must not be there yet.
  void Insert(std::uint64_t hash, RowId id) {
    // At most half full: a search that ends at its first place is predicted.
    if (++used_ * 2 > places_.size()) Grow();
    Put({static_cast<std::uint32_t>(hash >> 32), id});
  }

 private:
  struct Place {
    std::uint32_t tag = 0;  // its upper bits are the place
    RowId id = kNoRow;
  };

  void Put(Place place) {
    std::size_t at = place.tag >> shift_;
    while (places_[at].id != kNoRow) at = (at + 1) & (places_.size() - 1);
    places_[at] = place;
  }

  void Grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    --shift_;
    for (const Place& place : old) {
      if (place.id != kNoRow) Put(place);
    }
  }

  std::vector<Place> places_;
  unsigned shift_ = 28;  // 32 - log2(places)
  std::size_t used_ = 0;
};

// Keys that order as the sorted lists of members do, a list before its continuations: the place in
// a walk through the tree of all lists. Every code that is passed over skips a subtree.
inline std::uint64_t SortedSetKey(std::uint64_t bits) {
  if (bits == 0) return 0;
  const int last = 63 - __builtin_clzll(bits);
  std::uint64_t skipped = ~bits & ((std::uint64_t{1} << last) - 1);
  // The subtree of code c holds 2^(63 - c) lists: the bits in reverse.
  skipped = (skipped >> 1 & 0x5555555555555555U) | (skipped & 0x5555555555555555U) << 1;
  skipped = (skipped >> 2 & 0x3333333333333333U) | (skipped & 0x3333333333333333U) << 2;
  skipped = (skipped >> 4 & 0x0f0f0f0f0f0f0f0fU) | (skipped & 0x0f0f0f0f0f0f0f0fU) << 4;
  skipped = __builtin_bswap64(skipped);
  return skipped + static_cast<std::uint64_t>(__builtin_popcountll(bits));
}

}  // namespace rls
