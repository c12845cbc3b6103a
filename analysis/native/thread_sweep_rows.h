// The rows of one table, thread by thread, and the open ones among them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arrow_stream.h"
#include "id_counts.h"

namespace rls {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kAlways = std::numeric_limits<int64_t>::min();
// 146 years: beyond it, on either side, no time is one. The distance of any two times is one too.
constexpr int64_t kLastTime = (int64_t{1} << 62) - 1;

// The rows of a table do not come in the order of (process, thread, start).
class OrderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Somebody asked the sweep to end.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("the sweep was cancelled") {}
};

// Seen by the thread that waits for a sweep while it runs.
struct SweepProgress {
  std::atomic<int64_t> rows{0};
  std::atomic<bool> is_cancelled{false};
};

// Which part of time is swept: of the trace, and of the thread at hand.
struct Bounds {
  int64_t window_start_ns = kAlways;
  int64_t window_end_ns = kNever;
  int64_t life_start_ns = 0;
  int64_t life_end_ns = 0;

  int64_t start_ns() const { return std::max(window_start_ns, life_start_ns); }
  int64_t end_ns() const { return std::min(window_end_ns, life_end_ns); }
  // Each row is counted by the one window that it starts in.
  bool counts(int64_t row_start_ns) const {
    return window_start_ns <= row_start_ns && row_start_ns < window_end_ns;
  }
};

// Rows of one table that are not as the schema promises.
struct RowFaults {
  int64_t outside = 0;   // no part of the row lies in the lifetime of its thread
  int64_t clipped = 0;   // a part of it does not
  int64_t reversed = 0;  // it ends before it starts
  int64_t crossing = 0;  // it starts inside an open row and ends after that one
};

// The place of each id in the order that the tables are stored in.
class IdOrder {
 public:
  static constexpr int32_t kUnknown = -1;

  explicit IdOrder(const std::vector<int32_t>& ids) {
    if (ids.empty()) return;
    const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
    low_ = *low;
    const auto span = static_cast<std::size_t>(int64_t{*high} - low_ + 1);
    int32_t place = 0;
    if (span > kLargestTable) {
      for (const int32_t id : ids) sparse_[id] = place++;
      return;
    }
    place_.assign(span, kUnknown);
    for (const int32_t id : ids) place_[static_cast<std::size_t>(int64_t{id} - low_)] = place++;
  }

  int32_t place_of(int32_t id) const {
    if (!sparse_.empty()) {
      const auto found = sparse_.find(id);
      return found == sparse_.end() ? kUnknown : found->second;
    }
    const int64_t at = int64_t{id} - low_;
    return at < 0 || at >= static_cast<int64_t>(place_.size())
               ? kUnknown
               : place_[static_cast<std::size_t>(at)];
  }

 private:
  // Ids are dense in traces of ours; others must not cost memory by their size.
  static constexpr std::size_t kLargestTable = 1 << 22;

  int64_t low_ = 0;
  std::vector<int32_t> place_;
  std::unordered_map<int32_t, int32_t> sparse_;  // in its stead
};

// Steps through the rows of one thread (or process) after the other.
template <typename Value>
class RowReader {
 public:
  // largest: of the values, where they are bytes.
  RowReader(RowSource* source, std::string table, const IdOrder* order, SweepProgress* progress,
            uint8_t largest)
      : source_(source),
        table_(std::move(table)),
        order_(order),
        progress_(progress),
        largest_(largest) {}

  // Moves to the first row of the id at `place`; places must rise from call to call.
  void enter(int32_t place) {
    entered_ = place;
    start_ns_ = kAlways;
    while (place_ < place) next_run();
    take();
  }

  // Of the current row; kNever: this thread has no more rows.
  int64_t start_ns() const { return start_ns_; }
  int64_t end_ns() const { return end_[row_]; }
  Value value() const { return value_[row_]; }

  // From the current row on, as far as they have been read.
  std::size_t rows_at_hand() const { return run_end_ - row_; }

  void advance() {
    if (++row_ == run_end_) {
      do next_run();
      while (place_ == IdOrder::kUnknown);
      take();
      return;
    }
    __builtin_prefetch(start_ + row_ + kAhead);
    __builtin_prefetch(end_ + row_ + kAhead);
    const int64_t start_ns = start_[row_];
    if (start_ns < start_ns_) fail();
    start_ns_ = start_ns;
  }

 private:
  // So many rows are asked for early: the columns of a sweep are more than a processor follows.
  static constexpr std::size_t kAhead = 32;
  static constexpr int32_t kEnd = std::numeric_limits<int32_t>::max();

  void take() {
    if (place_ != entered_) {
      start_ns_ = kNever;
      return;
    }
    if (start_[row_] < start_ns_) fail();
    start_ns_ = start_[row_];
  }

  // Finds the next rows with one id, in this batch or the next.
  void next_run() {
    row_ = run_end_;
    if (row_ == batch_.rows && !next_batch()) {
      place_ = kEnd;
      return;
    }
    const int32_t* ids = batch_.id;
    const int32_t id = ids[row_];
    place_ = order_->place_of(id);
    if (place_ != IdOrder::kUnknown) {
      if (place_ < last_place_) fail();
      last_place_ = place_;
    }
    run_end_ = find_run_end(ids, row_, batch_.rows);
  }

  bool next_batch() {
    if (progress_->is_cancelled.load(std::memory_order_relaxed)) throw Cancelled();
    progress_->rows.fetch_add(static_cast<int64_t>(batch_.rows), std::memory_order_relaxed);
    row_ = run_end_ = 0;
    const bool is_there = source_->next(&batch_);
    if (!is_there) batch_ = RowBatch{};
    start_ = batch_.start_ns;
    end_ = batch_.end_ns;
    value_ = static_cast<const Value*>(batch_.value);
    if (sizeof(Value) == 1 && largest_ != 255) check_values();
    return is_there;
  }

  void check_values() const {
    Value largest = 0;
    for (std::size_t i = 0; i < batch_.rows; ++i) largest = std::max(largest, value_[i]);
    if (largest > largest_) {
      throw ColumnError(table_ + " holds the code " + std::to_string(largest) +
                        ", which this version does not know");
    }
  }

  [[noreturn]] void fail() const { throw OrderError(table_); }

  RowSource* source_;
  std::string table_;
  const IdOrder* order_;
  SweepProgress* progress_;
  uint8_t largest_;
  RowBatch batch_;
  const int64_t* start_ = nullptr;
  const int64_t* end_ = nullptr;
  const Value* value_ = nullptr;
  std::size_t row_ = 0;
  std::size_t run_end_ = 0;
  int32_t place_ = IdOrder::kUnknown;
  int32_t last_place_ = 0;
  int32_t entered_ = 0;
  int64_t start_ns_ = kNever;
};

}  // namespace rls
