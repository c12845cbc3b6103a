// Cursors of the sweep: each turns its source into edges, block after block.
//
// A block is an interval. It ends where some cursor cannot yet tell what comes, or has
// enough: that is its bound. An edge is a key: the time relative to the block above, the code
// below, so that keys order by time.
#pragma once

#include "set_overlap_merge.h"
#include "set_overlap_source.h"

namespace rls {

// One block: the instants first .. last, both included. kCodeBits: how many the codes need.
struct Block {
  Time first = 0;
  Time last = 0;

  // Greater than 0, as keys must be.
  template <unsigned kCodeBits>
  Key KeyOf(Time time, Key code) const {
    return (static_cast<Key>(time) - static_cast<Key>(first) + 1) << kCodeBits | code;
  }
  // The longest block that starts at `first`, up to `limit`.
  template <unsigned kCodeBits>
  static Time LastOf(Time first, Time limit) {
    constexpr Key kLongest = (Key{1} << (64 - kCodeBits)) - 4;
    const Key room = static_cast<Key>(limit) - static_cast<Key>(first);
    return room < kLongest ? limit : static_cast<Time>(static_cast<Key>(first) + kLongest);
  }
};

// The union of the intervals of one category, as the edges at which it starts and ends.
class CategoryCursor {
 public:
  // Throws OverlapInputError, as all below do, when the source is not ordered by start.
  CategoryCursor(IntervalSource* source, Key code) : source_(source), code_(code) {}

  // Passes over everything before `begin`; true: the category is active there.
  bool Prime(Time begin);
  bool done() const { return !open_ && at_ == chunk_.size; }
  // No edge comes before it. Not of a cursor that is done.
  Time NextEdge() const;
  // Edges are known up to here; `quota` intervals at most start until then.
  Time Bound(std::size_t quota) const;
  // Writes the edges until block.last to `out`, which has room for 2 * quota + 4; returns how many.
  template <unsigned kCodeBits>
  std::size_t Gather(const Block& block, Key* out);

 private:
  bool Refill();

  IntervalSource* source_;
  Key code_;
  IntervalChunk chunk_;
  std::size_t at_ = 0;  // chunk_.size only after the last chunk
  Time open_end_ = 0;   // of the interval that has started
  bool open_ = false;
  bool any_ = false;
  Time last_start_ = 0;
};

// The changes of the owner.
class OwnerCursor {
 public:
  explicit OwnerCursor(OwnerSource* source) : source_(source) {}

  Owner Prime(Time begin);
  bool done() const { return at_ == chunk_.size; }
  Time NextEdge() const { return chunk_.change[at_].time; }
  Time Bound(std::size_t quota) const;
  // Appends the owners to `owners`, one per key.
  template <unsigned kCodeBits>
  std::size_t Gather(const Block& block, Key code, Key* out, std::vector<Owner>* owners);

 private:
  void Step();

  OwnerSource* source_;
  OwnerChunk chunk_;
  std::size_t at_ = 0;
};

// The two widths of codes that sweeps use.
constexpr unsigned kSmallCodeBits = 8;
constexpr unsigned kLargeCodeBits = 32;

}  // namespace rls
