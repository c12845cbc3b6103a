#include "spool/state_rows.h"

#include <algorithm>

namespace rls {
namespace {

// The most rows that one cycle, or the end of one thread, adds.
constexpr std::size_t kMaxRowsPerStep = 3;

constexpr std::int16_t kNoCpu = -1;

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::int16_t CpuOf(std::uint32_t cpu) {
  return cpu <= INT16_MAX ? static_cast<std::int16_t>(cpu) : kNoCpu;
}

template <typename Value>
void AddColumn(const std::vector<Value>& column, std::size_t rows, ColumnTotals* totals) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  Value min = column[0];
  Value max = column[0];
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t value = column[row];
    low += value & 0xffffffff;
    high += value >> 32;
    min = std::min(min, column[row]);
    max = std::max(max, column[row]);
  }
  totals->count += rows;
  totals->sum_low += low;
  totals->sum_high += high;
  totals->min = std::min<std::int64_t>(totals->min, min);
  totals->max = std::max<std::int64_t>(totals->max, max);
}

// The same, where 0 is stored as NULL.
void AddThreadIds(const std::vector<std::int32_t>& column, std::size_t rows, ColumnTotals* totals) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t value = column[row];
    if (value == 0) {
      continue;
    }
    ++totals->count;
    totals->sum_low += value;
    totals->min = std::min(totals->min, value);
    totals->max = std::max(totals->max, value);
  }
}

WakerKind KindOf(std::int32_t waker) {
  switch (waker) {
    case RLS_WAKER_NONE:
      return WakerKind::kNone;
    case RLS_WAKER_INTERRUPT:
      return WakerKind::kInterrupt;
    case RLS_WAKER_OUTSIDE:
      return WakerKind::kOutside;
    case RLS_WAKER_TIMER:
      return WakerKind::kTimer;
    case RLS_WAKER_DEVICE:
      return WakerKind::kDevice;
    default:
      return waker > 0 ? WakerKind::kThread : WakerKind::kUnknown;
  }
}

template <typename Value>
void MoveToFront(std::vector<Value>* column, std::size_t begin, std::size_t end) {
  std::copy(column->begin() + static_cast<std::ptrdiff_t>(begin),
            column->begin() + static_cast<std::ptrdiff_t>(end), column->begin());
}

}  // namespace

void StateColumns::Resize(std::size_t rows) {
  thread_id.resize(rows);
  start_ns.resize(rows);
  end_ns.resize(rows);
  state.resize(rows);
  cpu.resize(rows);
  waker_kind.resize(rows);
  waker_thread_id.resize(rows);
  wait.resize(rows);
  lock_address.resize(rows);
  is_mutex.resize(rows);
}

void Finding::Add(std::int64_t ts_ns) {
  first_ns = count == 0 ? ts_ns : std::min(first_ns, ts_ns);
  ++count;
}

StateRows::StateRows(const SpoolScan& scan, const std::vector<std::uint32_t>& slots,
                     const std::string& scratch_directory, std::size_t batch_rows,
                     std::size_t bucket_bytes)
    : scan_(scan),
      slots_(slots),
      gil_(slots.size()),
      sorter_(scan, slots, scratch_directory, bucket_bytes),
      batch_rows_(batch_rows) {
  columns_.Resize(batch_rows + kMaxRowsPerStep);
  outcomes_.reserve(slots.size());
}

std::size_t StateRows::NextBatch() {
  DropHandedOut();
  while (filled_ < batch_rows_) {
    if (!is_open_) {
      if (next_thread_ == slots_.size()) {
        break;
      }
      Begin(scan_.threads()[slots_[next_thread_]]);
    } else if (cycles_left_ > 0) {
      --cycles_left_;
      AddCycle(sorter_.Next());
    } else {
      Finish(scan_.threads()[slots_[next_thread_]]);
      ++next_thread_;
    }
  }
  handed_out_ = std::min(filled_, batch_rows_);
  AddTotals(handed_out_);
  rows_ += handed_out_;
  return handed_out_;
}

void StateRows::DropHandedOut() {
  MoveToFront(&columns_.thread_id, handed_out_, filled_);
  MoveToFront(&columns_.start_ns, handed_out_, filled_);
  MoveToFront(&columns_.end_ns, handed_out_, filled_);
  MoveToFront(&columns_.state, handed_out_, filled_);
  MoveToFront(&columns_.cpu, handed_out_, filled_);
  MoveToFront(&columns_.waker_kind, handed_out_, filled_);
  MoveToFront(&columns_.waker_thread_id, handed_out_, filled_);
  MoveToFront(&columns_.wait, handed_out_, filled_);
  MoveToFront(&columns_.lock_address, handed_out_, filled_);
  MoveToFront(&columns_.is_mutex, handed_out_, filled_);
  filled_ -= handed_out_;
  handed_out_ = 0;
}

void StateRows::AddTotals(std::size_t rows) {
  if (rows == 0) {
    return;
  }
  AddColumn(columns_.thread_id, rows, &totals_[0]);
  AddColumn(columns_.start_ns, rows, &totals_[1]);
  AddColumn(columns_.end_ns, rows, &totals_[2]);
  AddColumn(columns_.state, rows, &totals_[3]);
  AddColumn(columns_.cpu, rows, &totals_[4]);
  AddColumn(columns_.waker_kind, rows, &totals_[5]);
  AddThreadIds(columns_.waker_thread_id, rows, &totals_[6]);
}

void StateRows::Begin(const ThreadFacts& thread) {
  is_open_ = true;
  is_dead_ = false;
  cycles_left_ = thread.cycles;
  thread_id_ = static_cast<std::int32_t>(thread.thread_id);
  cursor_ns_ = std::min(thread.start_ns, scan_.limit_ns());
  reason_ = thread.off_reason;
  reason_at_ns_ = thread.start_ns;
  outcome_ = {cursor_ns_, cursor_ns_, 0, thread.thread_id, 0};
  is_cut_ = (thread.has_start != 0 && thread.entered == RLS_ENTERED_FOUND) ||
            (scan_.from_ns() > 0 && thread.start_ns == scan_.from_ns());
}

// Tells [cursor, end_ns), cut at the end of the trace. Nothing is reported twice: the cursor only
// moves forward.
void StateRows::Emit(std::int64_t end_ns, ThreadState state, std::int16_t cpu, std::int32_t waker,
                     Wait wait) {
  end_ns = std::min(end_ns, scan_.limit_ns());
  if (end_ns <= cursor_ns_) {
    return;
  }
  columns_.thread_id[filled_] = thread_id_;
  columns_.start_ns[filled_] = cursor_ns_;
  columns_.end_ns[filled_] = end_ns;
  columns_.state[filled_] = static_cast<std::uint8_t>(state);
  columns_.cpu[filled_] = cpu;
  if (waker > 0 && left_out_.count(waker) != 0) {
    waker = RLS_WAKER_OUTSIDE;
  }
  columns_.waker_kind[filled_] = static_cast<std::uint8_t>(KindOf(waker));
  columns_.waker_thread_id[filled_] = std::max(waker, 0);
  columns_.wait[filled_] = static_cast<std::uint8_t>(wait.kind);
  columns_.lock_address[filled_] = wait.lock_address;
  columns_.is_mutex[filled_] = static_cast<std::uint8_t>(wait.is_mutex);
  ++filled_;
  cursor_ns_ = end_ns;
}

// Gives [cursor, until_ns) up as lost and returns its length.
std::int64_t StateRows::Lose(std::int64_t until_ns) {
  const std::int64_t lost_ns =
      std::max<std::int64_t>(std::min(until_ns, scan_.limit_ns()) - cursor_ns_, 0);
  outcome_.lost_ns += lost_ns;
  cursor_ns_ += lost_ns;
  return lost_ns;
}

// Lose, where a record is missing between two others.
void StateRows::LoseGap(std::int64_t until_ns) {
  const std::int64_t gap_start_ns = cursor_ns_;
  if (Lose(until_ns) > 0) {
    findings_.gap.Add(gap_start_ns);
  }
}

void StateRows::AddCycle(rls_rec_cycle cycle) {
  const std::int64_t limit_ns = scan_.limit_ns();
  if (is_cut_) CutBefore(static_cast<std::uint64_t>(outcome_.start_ns), &cycle);
  if ((cycle.flags & RLS_CYCLE_UNSEEN_SWITCH_IN) != 0) {
    if (cycle.in_ns == 0) {
      LoseCycle(cycle);
      return;
    }
    findings_.inferred_switch_in.Add(Signed(cycle.off_ns));
  }
  if (cycle.in_ns < cycle.off_ns || cycle.out_ns < cycle.in_ns) {
    findings_.overlap.Add(cursor_ns_);
  } else if (Signed(cycle.off_ns) < cursor_ns_) {
    findings_.overlap.Add(Signed(cycle.off_ns));
  }
  if (Signed(cycle.off_ns) >= limit_ns) {
    LoseGap(limit_ns);
    is_dead_ = false;  // whatever it did after the end, it was alive at the end
    return;
  }
  AddOffCpu(cycle, /*is_open=*/false);
  const std::int64_t out_ns = Signed(std::max({cycle.off_ns, cycle.in_ns, cycle.out_ns}));
  Emit(out_ns, ThreadState::kRunning, CpuOf(cycle.cpu), RLS_WAKER_NONE);
  reason_ = cycle.out_reason;
  reason_at_ns_ = Signed(cycle.out_ns);
  is_dead_ = cycle.out_state == RLS_OFF_DEAD && out_ns <= limit_ns;
}

// Of a thread that was watched before it was recorded: it enters in the middle of a cycle.
void StateRows::CutBefore(std::uint64_t start_ns, rls_rec_cycle* cycle) {
  cycle->off_ns = std::max<std::uint64_t>(cycle->off_ns, start_ns);
  cycle->in_ns = cycle->in_ns == 0 ? 0 : std::max<std::uint64_t>(cycle->in_ns, start_ns);
  cycle->out_ns = std::max<std::uint64_t>(cycle->out_ns, start_ns);
}

// A cycle of which only the ends are known.
void StateRows::LoseCycle(const rls_rec_cycle& cycle) {
  const std::int64_t out_ns = Signed(std::max(cycle.off_ns, cycle.out_ns));
  findings_.unseen_switch_in.Add(Signed(cycle.off_ns));
  Lose(out_ns);
  is_dead_ = cycle.out_state == RLS_OFF_DEAD && out_ns <= scan_.limit_ns();
}

// What it waits for that left the CPU at off_ns; unknown if a record between then and now is lost.
Wait StateRows::WaitAt(std::int64_t off_ns) const {
  if (off_ns != reason_at_ns_) {
    return {};
  }
  return WaitOf(reason_, off_ns, gil_[next_thread_]);
}

// Tells [off_ns, in_ns). is_open: in_ns is not the end of the sleep but of the trace.
void StateRows::AddOffCpu(const rls_rec_cycle& cycle, bool is_open) {
  const std::int64_t off_ns = Signed(cycle.off_ns);
  const std::int64_t in_ns = Signed(std::max(cycle.off_ns, cycle.in_ns));
  LoseGap(off_ns);
  if (cycle.off_state == RLS_OFF_RUNNABLE) {
    Emit(in_ns, ThreadState::kRunnable, kNoCpu, cycle.waker);
    return;
  }
  if (cycle.off_state >= RLS_OFF_DEAD) {
    Lose(in_ns);  // the dead do not come back: what it did is not known
    return;
  }
  const ThreadState state =
      cycle.off_state == RLS_OFF_BLOCKED ? ThreadState::kBlocked : ThreadState::kSleeping;
  const Wait wait = WaitAt(off_ns);
  if (cycle.wake_ns == 0) {
    if (!is_open && in_ns > cursor_ns_) {
      findings_.unseen_wakeup.Add(cursor_ns_);
    }
    Emit(in_ns, state, kNoCpu, RLS_WAKER_NONE, wait);
    return;
  }
  Emit(std::min(Signed(cycle.wake_ns), in_ns), state, kNoCpu, RLS_WAKER_NONE, wait);
  Emit(in_ns, ThreadState::kRunnable, kNoCpu, cycle.waker);
}

void StateRows::AddClose(rls_rec_close close) {
  const auto start_ns = static_cast<std::uint64_t>(outcome_.start_ns);
  if (is_cut_) close.off_ns = std::max<std::uint64_t>(close.off_ns, start_ns);
  if (is_cut_ && close.in_ns != 0) close.in_ns = std::max<std::uint64_t>(close.in_ns, start_ns);
  std::int64_t end_ns = scan_.limit_ns();
  if (end_ns == INT64_MAX) {
    end_ns = Signed(std::max({close.off_ns, close.wake_ns, close.in_ns}));
  }
  if (close.off_state == RLS_OFF_DEAD) {
    Lose(Signed(close.off_ns));
    is_dead_ = Signed(close.off_ns) <= end_ns;
    return;
  }
  if (Signed(close.off_ns) >= end_ns) {
    Lose(end_ns);
    return;
  }
  const bool is_running = close.in_ns != 0;
  rls_rec_cycle cycle = {};
  cycle.off_state = close.off_state;
  cycle.off_ns = close.off_ns;
  cycle.wake_ns = close.wake_ns;
  cycle.in_ns = is_running ? close.in_ns : static_cast<std::uint64_t>(end_ns);
  cycle.waker = close.waker;
  AddOffCpu(cycle, !is_running);
  if (is_running) {
    Emit(end_ns, ThreadState::kRunning, CpuOf(close.cpu), RLS_WAKER_NONE);
  }
  Lose(end_ns);
}

// The end of a thread: its death; or what it did when the recording stopped; or, without either
// record, the last instant that is known of it.
void StateRows::Finish(const ThreadFacts& thread) {
  const bool has_clean_end = scan_.limit_ns() != INT64_MAX;
  if (!is_dead_ && thread.close_slot != ThreadIndex::kNone) {
    AddClose(scan_.closes()[thread.close_slot]);
    if (!has_clean_end && !is_dead_) {
      findings_.truncated_thread.Add(cursor_ns_);
    }
  } else if (!is_dead_ && thread.exit_ns > 0) {
    // It called exit, and the cycle in which it died was lost.
    LoseGap(thread.exit_ns);
    is_dead_ = true;
  } else if (!is_dead_ && has_clean_end) {
    // Alive or not, nobody knows: the rest of the trace is lost for it, and reported to be.
    const std::int64_t last_ns = cursor_ns_;
    if (Lose(scan_.limit_ns()) > 0) {
      findings_.unseen_end.Add(last_ns);
    }
  } else if (!is_dead_) {
    findings_.truncated_thread.Add(cursor_ns_);
  }
  outcome_.end_ns = cursor_ns_;
  outcome_.ended = is_dead_ ? 1 : 0;
  outcomes_.push_back(outcome_);
  is_open_ = false;
}

}  // namespace rls
