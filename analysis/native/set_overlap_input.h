// Brings the arrays of a caller into the order that the sweep needs; copies only what is not.
#pragma once

#include <deque>
#include <vector>

#include "set_overlap_source.h"

namespace rls {

// Columns of our own; a deque of them keeps chunks valid while it grows.
struct IntervalColumns {
  std::vector<Time> start;
  std::vector<Time> end;
  IntervalChunk chunk() const { return {start.data(), end.data(), start.size()}; }
};

// The same union, with starts in order, and ends too where `for_windows`: a window then finds what
// is open at its begin by bisection. May point into `all` or into what it adds to `owned`.
IntervalChunk OrderIntervals(const IntervalChunk& all, bool for_windows,
                             std::deque<IntervalColumns>* owned);

// One table of intervals as one list per category, in the order of the table. Codes are
// 0 .. categories - 1; throws OverlapInputError for others.
std::deque<IntervalColumns> GroupByCode(const std::int32_t* code, const IntervalChunk& all,
                                        std::size_t categories);

// Up to windows - 1 increasing instants that cut the intervals into about equal parts.
std::vector<Time> CutTimes(const std::vector<IntervalChunk>& categories, std::size_t windows);

// The part of ordered intervals that lies in begin .. end, ends unclipped; ordered `for_windows`,
// unless it begins with the earliest of all times.
IntervalChunk SliceIntervals(const IntervalChunk& all, Time begin, Time end);
OwnerChunk SliceOwners(const OwnerChunk& all, Time begin, Time end);

}  // namespace rls
