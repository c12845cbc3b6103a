#include "set_overlap_sweep.h"

#include <algorithm>

namespace rls {
namespace {

// The keys of a block should stay in the cache while they are merged.
constexpr std::size_t kBlockIntervals = 2048;
constexpr std::size_t kLeastQuota = 128;

unsigned BitsFor(std::size_t codes) {
  unsigned bits = 1;
  while (codes >> bits != 0) ++bits;
  return bits;
}

bool IsTransition(const std::vector<Row>& rows, RowId from, RowId to) {
  return from != to && from != kGap && rows[from].owner == rows[to].owner;
}

}  // namespace

template <class Rows>
SetSweep<Rows>::SetSweep(const std::vector<IntervalSource*>& categories, OwnerSource* owner,
                         std::size_t owners, bool with_transitions)
    : owner_cursor_(owner),
      owner_code_(static_cast<std::uint32_t>(categories.size())),
      quota_(std::max(kLeastQuota, kBlockIntervals / (categories.size() + 1))),
      shift_(BitsFor(categories.size())),
      with_transitions_(with_transitions),
      result_{Rows(owner_code_, owners), {}, kGap, kGap},
      state_{result_.store.EmptySet(), kNone, 0, kGap} {
  for (IntervalSource* source : categories) categories_.emplace_back(source, categories_.size());
}

template <class Rows>
WindowRows<Rows> SetSweep<Rows>::Run(Time begin, Time end) {
  Prime(begin);
  Block block;
  while (Plan(end - 1, &block)) {
    Gather(block);
    with_transitions_ ? Account<true>(block) : Account<false>(block);
  }
  with_transitions_ ? Close<true>(end, &state_) : Close<false>(end, &state_);
  result_.closing = state_.last;
  return std::move(result_);
}

template <class Rows>
void SetSweep<Rows>::Prime(Time begin) {
  state_.now = begin;
  for (std::uint32_t code = 0; code < owner_code_; ++code) {
    if (categories_[code].Prime(begin)) state_.set.Toggle(code);
    Wait(code);
  }
  state_.owner = owner_cursor_.Prime(begin);
  Wait(owner_code_);
  // What is open at the begin tells how the window joins the one before.
  result_.opening = result_.store.Find(state_.set, state_.owner, begin);
}

template <class Rows>
void SetSweep<Rows>::Wait(std::uint32_t cursor) {
  const bool is_owner = cursor == owner_code_;
  if (is_owner ? owner_cursor_.done() : categories_[cursor].done()) return;
  const Time next = is_owner ? owner_cursor_.NextEdge() : categories_[cursor].NextEdge();
  waiting_.push_back({next, cursor});
  std::push_heap(waiting_.begin(), waiting_.end());
}

// Finds the next block, which touches only cursors that have an edge in it; false: none until
// limit.
template <class Rows>
bool SetSweep<Rows>::Plan(Time limit, Block* block) {
  if (waiting_.empty() || waiting_.front().next_edge > limit) return false;
  block->shift = shift_;
  block->first = waiting_.front().next_edge;
  block->last = Block::LastOf(block->first, limit, shift_);
  touched_.clear();
  while (!waiting_.empty() && waiting_.front().next_edge <= block->last) {
    const std::uint32_t cursor = waiting_.front().cursor;
    std::pop_heap(waiting_.begin(), waiting_.end());
    waiting_.pop_back();
    touched_.push_back(cursor);
    const bool is_owner = cursor == owner_code_;
    block->last = std::min(
        block->last, is_owner ? owner_cursor_.Bound(quota_) : categories_[cursor].Bound(quota_));
  }
  return true;
}

template <class Rows>
void SetSweep<Rows>::Gather(const Block& block) {
  merger_.Clear();
  owners_.clear();
  for (const std::uint32_t cursor : touched_) {
    Key* const out = merger_.Begin(2 * quota_ + 4);
    merger_.End(cursor == owner_code_ ? owner_cursor_.Gather(block, owner_code_, out, &owners_)
                                      : categories_[cursor].Gather(block, out));
    Wait(cursor);
  }
  owners_.push_back(kNone);  // is read, never used
}

template <class Rows>
template <bool kTransitions>
void SetSweep<Rows>::Account(const Block& block) {
  std::size_t size = 0;
  const Key* const keys = merger_.Merge(&size);
  const Key code_mask = (Key{1} << shift_) - 1;
  const unsigned shift = shift_;
  const std::uint32_t owner_code = owner_code_;
  const Key base = static_cast<Key>(block.first) - 1;
  const Owner* next_owner = owners_.data();
  State state = std::move(state_);  // in registers, where it fits
  for (std::size_t at = 0; at < size; ++at) {
    const Time time = static_cast<Time>((keys[at] >> shift) + base);
    if (time != state.now) Close<kTransitions>(time, &state);
    const auto code = static_cast<std::uint32_t>(keys[at] & code_mask);
    const bool is_owner = code == owner_code;
    state.set.ToggleIf(!is_owner, code);
    // A choice by mask: which edge comes next is as good as random.
    state.owner ^= (state.owner ^ *next_owner) & -static_cast<Owner>(is_owner);
    next_owner += is_owner;
  }
  state_ = std::move(state);
}

// Ends the segment that began at state->now.
template <class Rows>
template <bool kTransitions>
inline void SetSweep<Rows>::Close(Time until, State* state) {
  const RowId id = result_.store.Find(state->set, state->owner, state->now);
  Row& row = result_.store.rows[id];
  row.time_ns += static_cast<std::uint64_t>(until) - static_cast<std::uint64_t>(state->now);
  row.last_ns = until;
  row.count += id != state->last;
  if (kTransitions && IsTransition(result_.store.rows, state->last, id)) {
    result_.transitions.Add(state->last, id, 1);
  }
  state->last = id;
  state->now = until;
}

template <class Rows>
void WindowRows<Rows>::Append(const WindowRows& next) {
  std::vector<RowId> ids;
  ids.reserve(next.store.rows.size());
  for (const Row& row : next.store.rows) {
    // The owner of a row finds that row again: RowOwner keeps it.
    const RowId id = store.Find(next.store.SetOf(row), row.owner, row.first_ns);
    ids.push_back(id);
    Row& mine = store.rows[id];
    mine.time_ns += row.time_ns;
    mine.count += row.count;
    mine.last_ns = row.last_ns;
  }
  for (const Transition& one : next.transitions.all()) {
    transitions.Add(ids[one.from], ids[one.to], one.count);
  }
  const RowId joined = ids[next.opening];
  if (joined == closing) {
    --store.rows[joined].count;  // one stretch, cut in two
  } else if (IsTransition(store.rows, closing, joined)) {
    transitions.Add(closing, joined, 1);
  }
  closing = ids[next.closing];
}

template class SetSweep<SmallRows>;
template class SetSweep<LargeRows>;
template struct WindowRows<SmallRows>;
template struct WindowRows<LargeRows>;

}  // namespace rls
