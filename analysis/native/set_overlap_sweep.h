// The sweep over one window of time: merges the edges of all categories and of the owner, block by
// block, and adds every elementary segment to the row of its owner and set.
//
// Memory does not grow with the length of the window, only with the number of different rows.
#pragma once

#include "set_overlap_cursor.h"
#include "set_overlap_rows.h"

namespace rls {

struct Transition {
  RowId from;
  RowId to;
  std::uint64_t count;
};

class TransitionTable {
 public:
  void Add(RowId from, RowId to, std::uint64_t count) {
    const std::uint64_t hash = Mix(std::uint64_t{from} << 32 | to);
    const RowId known =
        index_.Find(hash, [&](RowId id) { return all_[id].from == from && all_[id].to == to; });
    if (known != kNoRow) {
      all_[known].count += count;
      return;
    }
    if (all_.size() == kNoRow) throw std::length_error("more than 4 billion transitions");
    index_.Insert(hash, static_cast<RowId>(all_.size()));
    all_.push_back({from, to, count});
  }
  const std::vector<Transition>& all() const { return all_; }
  std::vector<Transition>& all() { return all_; }

 private:
  FlatIndex index_;
  std::vector<Transition> all_;
};

// What a window gives. Its first interval may continue the last one of the window before.
template <class Rows>
struct WindowRows {
  Rows store;
  TransitionTable transitions;
  RowId opening = kGap;
  RowId closing = kGap;

  // Takes the next window in; afterwards this is what one sweep over both would have given.
  void Append(const WindowRows& next);
};

// What the rows of a sweep become when it is done.
template <class Rows>
struct FinalRows {
  using Type = Rows;
};
template <>
struct FinalRows<TableRows> {
  using Type = SmallRows;
};

template <class Rows>
class SetSweep {
 public:
  // The sources must outlive the sweep; `owners` as for Rows.
  SetSweep(const std::vector<IntervalSource*>& categories, OwnerSource* owner, std::size_t owners,
           bool with_transitions);

  // Sweeps begin .. end, end not included; once.
  WindowRows<typename FinalRows<Rows>::Type> Run(Time begin, Time end);

 private:
  // Where the sweep stands.
  struct State {
    typename Rows::Set set;
    Owner owner_key = 0;
    Time now = 0;
    RowId last = kGap;  // the row of the segment before
  };

  struct Waiting {
    Time next_edge;
    std::uint32_t cursor;
    bool operator<(const Waiting& other) const { return next_edge > other.next_edge; }
  };

  void Prime(Time begin);
  void Wait(std::uint32_t cursor);
  bool Plan(Time limit, Block* block);
  void Gather(const Block& block);
  void Account(const Block& block);
  template <bool kTransitions, bool kOwners>
  void AccountAs(const Block& block);
  template <bool kTransitions>
  void Close(Time until, State* state);

  std::vector<CategoryCursor> categories_;
  OwnerCursor owner_cursor_;
  std::uint32_t owner_code_;  // the code after those of the categories
  std::size_t quota_;
  bool with_transitions_;

  std::vector<Waiting> waiting_;  // a heap: the next edge first
  std::vector<std::uint32_t> touched_;
  RunMerger merger_;
  std::vector<Owner> owner_keys_;  // of the block, as its edges come

  WindowRows<Rows> result_;
  State state_;
};

extern template class SetSweep<TableRows>;
extern template class SetSweep<SmallRows>;
extern template class SetSweep<LargeRows>;
extern template struct WindowRows<SmallRows>;
extern template struct WindowRows<LargeRows>;

}  // namespace rls
