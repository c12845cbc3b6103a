#include "set_overlap_sweep.h"

#include <algorithm>

namespace rls {
namespace {

// The keys of a block should stay in the cache while they are merged.
constexpr std::size_t kBlockIntervals = 2048;
constexpr std::size_t kLeastQuota = 128;

template <class Rows>
bool IsTransition(const Rows& rows, RowId from, RowId to) {
  return from != to && from != kGap && rows.owner(from) == rows.owner(to);
}

template <class Rows>
WindowRows<Rows> Finish(WindowRows<Rows> swept) {
  return swept;
}

WindowRows<SmallRows> Finish(WindowRows<TableRows> swept) {
  WindowRows<SmallRows> result{SmallRows(0, 0), {}, kGap, kGap};
  std::vector<RowId> ids(swept.store.size());
  for (RowId place = kGap + 1; place < ids.size(); ++place) {
    if (swept.store.tally(place).count == 0) continue;
    ids[place] = result.store.Find(swept.store.SetAt(place), swept.store.owner(place));
    result.store.tally(ids[place]) = swept.store.tally(place);
  }
  for (const Transition& one : swept.transitions.all()) {
    result.transitions.Add(ids[one.from], ids[one.to], one.count);
  }
  result.opening = ids[swept.opening];
  result.closing = ids[swept.closing];
  return result;
}

}  // namespace

template <class Rows>
SetSweep<Rows>::SetSweep(const std::vector<IntervalSource*>& categories, OwnerSource* owner,
                         std::size_t owners, bool with_transitions)
    : owner_cursor_(owner),
      owner_code_(static_cast<std::uint32_t>(categories.size())),
      quota_(std::max(kLeastQuota, kBlockIntervals / (categories.size() + 1))),
      with_transitions_(with_transitions),
      result_{Rows(owner_code_, owners), {}, kGap, kGap},
      state_{result_.store.EmptySet(), 0, 0, kGap} {
  for (IntervalSource* source : categories) categories_.emplace_back(source, categories_.size());
}

template <class Rows>
WindowRows<typename FinalRows<Rows>::Type> SetSweep<Rows>::Run(Time begin, Time end) {
  Prime(begin);
  Block block;
  while (Plan(end - 1, &block)) {
    Gather(block);
    Account(block);
  }
  with_transitions_ ? Close<true>(end, &state_) : Close<false>(end, &state_);
  result_.closing = state_.last;
  return Finish(std::move(result_));
}

template <class Rows>
void SetSweep<Rows>::Prime(Time begin) {
  state_.now = begin;
  for (std::uint32_t code = 0; code < owner_code_; ++code) {
    if (categories_[code].Prime(begin)) state_.set.Toggle(code);
    Wait(code);
  }
  state_.owner_key = result_.store.KeyOf(owner_cursor_.Prime(begin));
  Wait(owner_code_);
  // What is open at the begin tells how the window joins the one before.
  result_.opening = result_.store.Find(state_.set, state_.owner_key);
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
  block->first = waiting_.front().next_edge;
  block->last = Block::LastOf<Rows::kCodeBits>(block->first, limit);
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
  owner_keys_.clear();
  for (const std::uint32_t cursor : touched_) {
    Key* const out = merger_.Begin(2 * quota_ + 4);
    const std::size_t size =
        cursor == owner_code_
            ? owner_cursor_.Gather<Rows::kCodeBits>(block, owner_code_, out, &owner_keys_)
            : categories_[cursor].template Gather<Rows::kCodeBits>(block, out);
    merger_.End(size);
    Wait(cursor);
  }
  for (Owner& owner : owner_keys_) owner = result_.store.KeyOf(owner);
}

template <class Rows>
void SetSweep<Rows>::Account(const Block& block) {
  if (owner_keys_.empty()) {
    with_transitions_ ? AccountAs<true, false>(block) : AccountAs<false, false>(block);
    return;
  }
  owner_keys_.push_back(kNone);  // is read, never used
  with_transitions_ ? AccountAs<true, true>(block) : AccountAs<false, true>(block);
}

template <class Rows>
template <bool kTransitions, bool kOwners>
void SetSweep<Rows>::AccountAs(const Block& block) {
  std::size_t size = 0;
  const Key* const keys = merger_.Merge(&size);
  constexpr Key kCodeMask = (Key{1} << Rows::kCodeBits) - 1;
  const Key base = static_cast<Key>(block.first) - 1;
  const std::uint32_t owner_code = owner_code_;
  const Owner* next_owner = owner_keys_.data();
  State state = std::move(state_);  // in registers, where it fits
  for (std::size_t at = 0; at < size; ++at) {
    const Key key = keys[at];
    const auto time = static_cast<Time>((key >> Rows::kCodeBits) + base);
    if (time != state.now) Close<kTransitions>(time, &state);
    const auto code = static_cast<std::uint32_t>(key & kCodeMask);
    if (!kOwners) {
      state.set.Toggle(code);
      continue;
    }
    // Choices by mask: which edge comes next is as good as random.
    const bool is_owner = code == owner_code;
    state.set.ToggleIf(!is_owner, code);
    state.owner_key ^= (state.owner_key ^ *next_owner) & -static_cast<Owner>(is_owner);
    next_owner += is_owner;
  }
  state_ = std::move(state);
}

// Ends the segment that began at state->now.
template <class Rows>
template <bool kTransitions>
inline void SetSweep<Rows>::Close(Time until, State* state) {
  const RowId id = result_.store.Find(state->set, state->owner_key);
  Tally& tally = result_.store.tally(id);
  if (tally.count == 0) tally.first_ns = state->now;
  tally.time_ns += static_cast<std::uint64_t>(until) - static_cast<std::uint64_t>(state->now);
  tally.last_ns = until;
  tally.count += id != state->last;
  if (kTransitions && IsTransition(result_.store, state->last, id)) {
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
    ids.push_back(store.Find(next.store.SetOf(row), row.owner));
    store.tally(ids.back()).Append(row.tally);
  }
  for (const Transition& one : next.transitions.all()) {
    transitions.Add(ids[one.from], ids[one.to], one.count);
  }
  const RowId joined = ids[next.opening];
  if (joined == closing) {
    --store.tally(joined).count;  // one interval, cut in two
  } else if (IsTransition(store, closing, joined)) {
    transitions.Add(closing, joined, 1);
  }
  closing = ids[next.closing];
}

template class SetSweep<TableRows>;
template class SetSweep<SmallRows>;
template class SetSweep<LargeRows>;
template struct WindowRows<SmallRows>;
template struct WindowRows<LargeRows>;

}  // namespace rls
