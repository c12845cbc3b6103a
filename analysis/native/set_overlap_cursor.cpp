#include "set_overlap_cursor.h"

#include <algorithm>

namespace rls {
namespace {

void Check(const IntervalChunk& chunk, bool any, Time last_start) {
  // Without branches, so that it costs little next to reading the columns.
  bool reversed = chunk.end[0] < chunk.start[0];
  bool disordered = any && chunk.start[0] < last_start;
  for (std::size_t row = 1; row < chunk.size; ++row) {
    reversed |= chunk.end[row] < chunk.start[row];
    disordered |= chunk.start[row] < chunk.start[row - 1];
  }
  if (reversed) throw OverlapInputError("an interval ends before it starts");
  if (disordered) throw OverlapInputError("the intervals of a category are not ordered by start");
}

}  // namespace

bool CategoryCursor::Refill() {
  if (chunk_.is_last) return false;
  chunk_ = source_->Next();
  at_ = 0;
  if (chunk_.size == 0) {
    chunk_.is_last = true;
    return false;
  }
  if (!chunk_.is_checked) Check(chunk_, any_, last_start_);
  any_ = true;
  last_start_ = chunk_.start[chunk_.size - 1];
  return true;
}

bool CategoryCursor::Prime(Time begin) {
  bool more = Refill();
  while (more && chunk_.start[at_] <= begin) {
    open_end_ = open_ ? std::max(open_end_, chunk_.end[at_]) : chunk_.end[at_];
    open_ = true;
    if (++at_ == chunk_.size) more = Refill();
  }
  open_ = open_ && open_end_ > begin;
  return open_;
}

Time CategoryCursor::NextEdge() const {
  if (at_ == chunk_.size) return open_end_;
  return open_ ? std::min(open_end_, chunk_.start[at_]) : chunk_.start[at_];
}

Time CategoryCursor::Bound(std::size_t quota) const {
  if (chunk_.size - at_ > quota) return chunk_.start[at_ + quota - 1];
  return chunk_.is_last ? INT64_MAX : chunk_.start[chunk_.size - 1];
}

template <unsigned kCodeBits>
std::size_t CategoryCursor::Gather(const Block& block, Key* out) {
  std::size_t count = 0;
  bool more = at_ != chunk_.size;
  if (more && !open_ && chunk_.start[at_] <= block.last) {
    open_ = true;
    open_end_ = chunk_.end[at_];
    out[count++] = block.KeyOf<kCodeBits>(chunk_.start[at_], code_);
    if (++at_ == chunk_.size) more = Refill();
  }
  Time open_end = open_end_;
  while (more) {
    const Time* const starts = chunk_.start;
    const Time* const ends = chunk_.end;
    const std::size_t size = chunk_.size;
    std::size_t at = at_;
    for (; at < size && starts[at] <= block.last; ++at) {
      // Always written, but kept only where there is a gap.
      out[count] = block.KeyOf<kCodeBits>(open_end, code_);
      out[count + 1] = block.KeyOf<kCodeBits>(starts[at], code_);
      count += std::size_t{2} * (starts[at] > open_end);
      open_end = std::max(open_end, ends[at]);
    }
    at_ = at;
    more = at == size && Refill();
  }
  open_end_ = open_end;
  if (open_ && open_end <= block.last) {
    out[count++] = block.KeyOf<kCodeBits>(open_end, code_);
    open_ = false;
  }
  return count;
}

void OwnerCursor::Step() {
  if (++at_ < chunk_.size) return;
  chunk_ = source_->Next();
  at_ = 0;
}

Owner OwnerCursor::Prime(Time begin) {
  Owner owner = kNone;
  chunk_ = source_->Next();
  while (!done() && NextEdge() <= begin) {
    owner = chunk_.change[at_].owner;
    Step();
  }
  return owner;
}

Time OwnerCursor::Bound(std::size_t quota) const {
  return chunk_.change[std::min(at_ + quota, chunk_.size) - 1].time;
}

template <unsigned kCodeBits>
std::size_t OwnerCursor::Gather(const Block& block, Key code, Key* out,
                                std::vector<Owner>* owners) {
  std::size_t count = 0;
  while (!done() && NextEdge() <= block.last) {
    out[count++] = block.KeyOf<kCodeBits>(NextEdge(), code);
    owners->push_back(chunk_.change[at_].owner);
    Step();
  }
  return count;
}

template std::size_t CategoryCursor::Gather<kSmallCodeBits>(const Block&, Key*);
template std::size_t CategoryCursor::Gather<kLargeCodeBits>(const Block&, Key*);
template std::size_t OwnerCursor::Gather<kSmallCodeBits>(const Block&, Key, Key*,
                                                         std::vector<Owner>*);
template std::size_t OwnerCursor::Gather<kLargeCodeBits>(const Block&, Key, Key*,
                                                         std::vector<Owner>*);

}  // namespace rls
