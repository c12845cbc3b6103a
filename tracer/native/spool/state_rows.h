// Second pass over a spool: cycles into rows of thread_state_coded, batch by batch.
//
// The rows of a thread tile its lifetime, less lost_ns: every nanosecond between its start and its
// end is in exactly one row or in lost_ns. This holds for any records, also damaged ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "spool/cycle_sorter.h"
#include "spool/scan.h"
#include "spool/wait_kind.h"

namespace rls {

// The codes of thread_state_coded.state.
enum class ThreadState : std::uint8_t { kRunning = 0, kRunnable = 1, kSleeping = 2, kBlocked = 3 };

// The codes of thread_state_coded.waker_kind, 0 for NULL.
enum class WakerKind : std::uint8_t {
  kNone,
  kThread,
  kInterrupt,
  kOutside,
  kUnknown,
  kTimer,
  kDevice,
};

// The columns of thread_state_coded; and the wait of a row, which makes it a row of wait_coded too.
struct StateColumns {
  std::vector<std::int32_t> thread_id;
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  std::vector<std::uint8_t> state;
  std::vector<std::int16_t> cpu;
  std::vector<std::uint8_t> waker_kind;       // WakerKind
  std::vector<std::int32_t> waker_thread_id;  // 0: no thread
  std::vector<std::uint8_t> wait;             // WaitKind
  std::vector<std::int64_t> lock_address;     // 0: none
  std::vector<std::uint8_t> is_mutex;

  void Resize(std::size_t rows);
};

// What a column must hold once it is stored, of `count` rows that are not NULL; the sum as low +
// 2^32 * high, which cannot overflow.
struct ColumnTotals {
  std::uint64_t count = 0;
  std::int64_t sum_low = 0;
  std::int64_t sum_high = 0;
  std::int64_t min = INT64_MAX;
  std::int64_t max = INT64_MIN;
};

// How a thread's rows came out. Python sees an array of these.
struct ThreadOutcome {
  std::int64_t start_ns;
  std::int64_t end_ns;
  std::int64_t lost_ns;
  std::uint32_t thread_id;
  std::uint8_t ended;
};

// What the records did not tell, and when the first time.
struct Finding {
  std::uint64_t count = 0;
  std::int64_t first_ns = 0;

  void Add(std::int64_t ts_ns);
};

struct Findings {
  Finding inferred_switch_in;  // not seen; its time follows from the OS kernel's CPU accounting
  Finding unseen_switch_in;    // not seen, and its time is not known: the cycle is lost
  Finding unseen_wakeup;       // a thread went on running, and nobody was seen to wake it
  Finding gap;                 // between two cycles of a thread
  Finding overlap;             // a record reaches back over what another one reported: cut
  Finding unseen_end;          // neither dead nor in the closing inventory of a clean end
  Finding truncated_thread;    // alive when the recorder was killed
};

class StateRows {
 public:
  // slots: indices into scan.threads(), in the order of the rows.
  StateRows(const SpoolScan& scan, const std::vector<std::uint32_t>& slots,
            const std::string& scratch_directory, std::size_t batch_rows, std::size_t bucket_bytes);

  // Where the GIL of the threads in slots[position] is; before the first NextBatch.
  void SetGil(std::size_t position, std::vector<GilRange> ranges) {
    gil_[position] = std::move(ranges);
  }

  // Threads that the trace leaves out: who is woken by one is woken from outside.
  void SetLeftOut(const std::vector<std::int32_t>& thread_ids) {
    left_out_.insert(thread_ids.begin(), thread_ids.end());
  }

  // Prepares for about so many bytes of the spool; false once the rows can be had.
  bool Prepare(std::uint64_t bytes) { return sorter_.Scatter(bytes); }

  // Fills columns() with the next rows and returns their count; 0 at the end.
  std::size_t NextBatch();

  const StateColumns& columns() const { return columns_; }
  std::uint64_t rows() const { return rows_; }
  const std::array<ColumnTotals, 7>& totals() const { return totals_; }
  const std::vector<ThreadOutcome>& outcomes() const { return outcomes_; }
  const Findings& findings() const { return findings_; }

 private:
  void Begin(const ThreadFacts& thread);
  void AddCycle(rls_rec_cycle cycle);
  static void CutBefore(std::uint64_t start_ns, rls_rec_cycle* cycle);
  void AddOffCpu(const rls_rec_cycle& cycle, bool is_open);
  void AddClose(rls_rec_close close);
  void Finish(const ThreadFacts& thread);
  void Emit(std::int64_t end_ns, ThreadState state, std::int16_t cpu, std::int32_t waker,
            Wait wait = {});
  std::int64_t Lose(std::int64_t until_ns);
  void LoseGap(std::int64_t until_ns);
  void LoseCycle(const rls_rec_cycle& cycle);
  Wait WaitAt(std::int64_t off_ns) const;
  void AddTotals(std::size_t rows);
  void DropHandedOut();

  const SpoolScan& scan_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::vector<GilRange>> gil_;  // by position in slots_
  std::unordered_set<std::int32_t> left_out_;
  CycleSorter sorter_;
  std::size_t batch_rows_;

  std::size_t next_thread_ = 0;
  std::uint64_t cycles_left_ = 0;
  bool is_open_ = false;
  std::int32_t thread_id_ = 0;
  std::int64_t cursor_ns_ = 0;  // all before it is reported
  bool is_cut_ = false;         // what began before the thread entered is cut there
  bool is_dead_ = false;
  std::uint64_t reason_ = 0;       // why it left the CPU ...
  std::int64_t reason_at_ns_ = 0;  // ... at this instant
  ThreadOutcome outcome_ = {};

  StateColumns columns_;
  std::size_t filled_ = 0;
  std::size_t handed_out_ = 0;
  std::uint64_t rows_ = 0;
  std::array<ColumnTotals, 7> totals_;
  std::vector<ThreadOutcome> outcomes_;
  Findings findings_;
};

}  // namespace rls
