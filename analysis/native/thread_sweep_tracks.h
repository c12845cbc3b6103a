// What is open on a thread at the instant of the sweep, per table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "thread_sweep_rows.h"

namespace rls {

// Counts what the bounds cut off, and steps over it; shared by every kind of track.
template <typename Value>
class TrackRows {
 public:
  explicit TrackRows(RowReader<Value> reader) : reader_(std::move(reader)) {}

  const RowFaults& faults() const { return faults_; }
  // Of the current row. An end is never kNever, which stands for "nothing is open".
  int64_t start_ns() const { return reader_.start_ns(); }
  int64_t end_ns() const { return std::min(reader_.end_ns(), kNever - 1); }
  Value value() const { return reader_.value(); }

  // Reads what is left: rows that start at the end of the bounds or later.
  void leave() {
    for (; reader_.start_ns() != kNever; reader_.advance()) {
      if (bounds_.counts(reader_.start_ns())) count_cut(false);
    }
  }

 protected:
  // Reads the rows that start before the bounds, and hands on those that reach into them.
  template <typename Open>
  void enter(int32_t place, const Bounds& bounds, Open open) {
    bounds_ = bounds;
    reader_.enter(place);
    for (; reader_.start_ns() < bounds.start_ns(); reader_.advance()) {
      if (bounds.counts(reader_.start_ns())) {
        count_cut(end_ns() > bounds.life_start_ns && bounds.life_start_ns < bounds.life_end_ns);
      }
      if (end_ns() > bounds.start_ns()) open();
    }
  }

  // Tells whether a row that starts within the bounds takes time; counts what is wrong with it.
  bool takes_time(int64_t start_ns, int64_t end_ns) {
    if (end_ns > bounds_.life_end_ns) ++faults_.clipped;
    if (end_ns > start_ns) return true;
    faults_.reversed += end_ns < start_ns;
    return false;
  }

  RowReader<Value> reader_;
  RowFaults faults_;
  Bounds bounds_;

 private:
  void count_cut(bool reaches_in) {
    if (end_ns() < reader_.start_ns()) {
      ++faults_.reversed;
    } else if (reaches_in) {
      ++faults_.clipped;
    } else {
      ++faults_.outside;
    }
  }
};

template <typename Value>
struct OpenRow {
  OpenRow(int64_t, int64_t end, Value held) : end_ns(end), value(held) {}

  int64_t end_ns;
  Value value;
};

// Where somebody asks when it began.
template <typename Value>
struct BegunRow {
  BegunRow(int64_t start, int64_t end, Value held) : start_ns(start), end_ns(end), value(held) {}

  int64_t start_ns;
  int64_t end_ns;
  Value value;
};

// Rows of which the one opened last that is still open owns the time. kMayNest: only rows that
// cross are faults; else any row that starts inside an open one is.
template <typename Value, bool kMayNest, typename Open = OpenRow<Value>>
class InnermostTrack : public TrackRows<Value> {
 public:
  explicit InnermostTrack(RowReader<Value> reader) : TrackRows<Value>(std::move(reader)) {}

  // when_none: the value while no row is open.
  void enter(int32_t place, const Bounds& bounds, Value when_none) {
    open_[0] = Open(bounds.life_start_ns, kNever, when_none);
    top_ = open_.data();
    TrackRows<Value>::enter(place, bounds, [this] { push_last(); });
  }

  // When the innermost row may change next.
  int64_t next_ns() const { return std::min(this->start_ns(), top_->end_ns); }
  Value current() const { return top_->value; }
  // When the innermost row began; the thread, if none is open.
  int64_t begun_ns() const { return top_->start_ns; }

  void step(int64_t now_ns) {
    close(now_ns);
    while (this->start_ns() == now_ns) open_row();
  }

  void close(int64_t now_ns) {
    if (top_->end_ns <= now_ns) --top_;
  }

  // Opens the current row and reads the next one.
  void open_row() {
    const int64_t end_ns = this->end_ns();
    const bool is_inside = end_ns < top_->end_ns && end_ns <= this->bounds_.life_end_ns;
    if (__builtin_expect(is_inside && this->start_ns() < end_ns, 1)) {
      this->faults_.crossing += !kMayNest && is_open();
      push(end_ns, this->value());
    } else {
      open_odd_row();
    }
    this->reader_.advance();
  }

 private:
  // One that takes no time, or reaches out of what is around it. Those that end no later than a new
  // row never own time again: ends fall from the bottom up, so that at every instant at most one
  // row closes, and bad nesting cannot pile up.
  __attribute__((noinline)) void open_odd_row() {
    const int64_t end_ns = this->end_ns();
    if (!this->takes_time(this->start_ns(), end_ns)) return;
    this->faults_.crossing += kMayNest ? top_->end_ns < end_ns : is_open();
    push_last();
  }

  // Closes what ends no later.
  void push_last() {
    const int64_t end_ns = this->end_ns();
    while (top_->end_ns <= end_ns) --top_;
    push(end_ns, this->value());
  }

  bool is_open() const { return top_ != open_.data(); }

  void push(int64_t end_ns, Value value) {
    if (top_ == &open_.back()) grow();
    *++top_ = Open(this->start_ns(), end_ns, value);
  }

  __attribute__((noinline)) void grow() {
    const std::ptrdiff_t depth = top_ - open_.data();
    open_.resize(2 * open_.size(), Open(0, 0, Value{}));
    top_ = open_.data() + depth;
  }

  // The open rows, after one that stands for none.
  std::vector<Open> open_ = std::vector<Open>(16, Open(0, 0, Value{}));
  Open* top_ = open_.data();  // the innermost
};

// CUDA calls: whether any is open, and whether any of them waits for the GPU.
class CudaTrack : public TrackRows<uint8_t> {
 public:
  static constexpr uint8_t kSync = 4;

  explicit CudaTrack(RowReader<uint8_t> reader) : TrackRows(std::move(reader)) {}

  void enter(int32_t place, const Bounds& bounds) {
    open_until_ns_ = sync_until_ns_ = kNever;
    TrackRows::enter(place, bounds, [this] { extend(end_ns()); });
    find_next();
  }

  int64_t next_ns() const { return next_ns_; }
  bool is_open() const { return open_until_ns_ != kNever; }
  bool is_sync() const { return sync_until_ns_ != kNever; }

  void close(int64_t now_ns) {
    if (open_until_ns_ <= now_ns) open_until_ns_ = kNever;
    if (sync_until_ns_ <= now_ns) sync_until_ns_ = kNever;
  }

  // After the rows of an instant have been closed and opened.
  void find_next() { next_ns_ = std::min({start_ns(), open_until_ns_, sync_until_ns_}); }

  void open_row() {
    const int64_t end_ns = this->end_ns();
    if (takes_time(start_ns(), end_ns)) {
      faults_.crossing += is_open() && open_until_ns_ < end_ns;
      extend(end_ns);
    }
    reader_.advance();
  }

 private:
  void extend(int64_t end_ns) {
    open_until_ns_ = is_open() ? std::max(open_until_ns_, end_ns) : end_ns;
    if (value() != kSync) return;
    sync_until_ns_ = is_sync() ? std::max(sync_until_ns_, end_ns) : end_ns;
  }

  // kNever: none is open.
  int64_t open_until_ns_ = kNever;
  int64_t sync_until_ns_ = kNever;
  int64_t next_ns_ = kNever;
};

}  // namespace rls
