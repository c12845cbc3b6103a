// What is open on a thread at the instant of the sweep, per table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "thread_sweep_rows.h"

namespace rls {

// Counts what the bounds cut off, and steps over it; shared by every kind of track.
template <typename Value>
class TrackRows {
 public:
  explicit TrackRows(RowReader<Value> reader) : reader_(std::move(reader)) {}

  const RowFaults& faults() const { return faults_; }
  int64_t start_ns() const { return reader_.start_ns(); }
  // An end is never kNever, which stands for "nothing is open".
  int64_t end_ns() const { return std::min(reader_.end_ns(), kNever - 1); }
  Value value() const { return reader_.value(); }

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

  // Reads what is left: rows that start at the end of the bounds or later.
  void leave() {
    for (; reader_.start_ns() != kNever; reader_.advance()) {
      if (bounds_.counts(reader_.start_ns())) count_cut(false);
    }
  }

  // Tells whether the row takes time; counts what is wrong with it.
  bool takes_time() {
    const int64_t end = end_ns();
    faults_.clipped += end > bounds_.life_end_ns;
    faults_.reversed += end < reader_.start_ns();
    return end > reader_.start_ns();
  }

  RowReader<Value> reader_;
  RowFaults faults_;

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

  Bounds bounds_;
};

// Rows of which the one opened last that is still open owns the time. kMayNest: only rows that
// cross are faults; else any row that starts inside an open one is.
template <typename Value, bool kMayNest>
class InnermostTrack : public TrackRows<Value> {
  using Base = TrackRows<Value>;

 public:
  explicit InnermostTrack(RowReader<Value> reader) : Base(std::move(reader)) {}

  void enter(int32_t place, const Bounds& bounds, Value when_none) {
    open_.assign(1, Open{kNever, when_none});
    Base::enter(place, bounds, [this] { push(this->end_ns()); });
    set_next();
  }

  using Base::leave;

  // When the innermost row may change next.
  int64_t next_ns() const { return next_ns_; }
  Value current() const { return open_.back().value; }

  void step(int64_t now_ns) {
    close(now_ns);
    while (this->start_ns() == now_ns) open_row();
    set_next();
  }

  void close(int64_t now_ns) {
    if (open_.back().end_ns <= now_ns) open_.pop_back();
  }

  // Opens the current row and reads the next one.
  void open_row() {
    if (this->takes_time()) {
      this->faults_.crossing += kMayNest ? open_.back().end_ns < this->end_ns() : open_.size() > 1;
      push(this->end_ns());
    }
    this->reader_.advance();
  }

  void set_next() { next_ns_ = std::min(this->start_ns(), open_.back().end_ns); }

 private:
  struct Open {
    int64_t end_ns;
    Value value;
  };

  // Those that end no later than the new row never own time again: ends fall from the bottom up,
  // so that at every instant at most one row closes, and bad nesting cannot pile up.
  void push(int64_t end_ns) {
    while (open_.back().end_ns <= end_ns) open_.pop_back();
    open_.push_back({end_ns, this->value()});
  }

  std::vector<Open> open_;
  int64_t next_ns_ = kNever;
};

// CUDA calls: whether any is open, and whether any of them waits for the GPU.
class CudaTrack : public TrackRows<uint8_t> {
 public:
  static constexpr uint8_t kSync = 4;

  explicit CudaTrack(RowReader<uint8_t> reader) : TrackRows(std::move(reader)) {}

  void enter(int32_t place, const Bounds& bounds) {
    open_until_ns_ = sync_until_ns_ = kAlways;
    TrackRows::enter(place, bounds, [this] { extend(end_ns()); });
    set_next(bounds.start_ns());
  }

  using TrackRows::leave;

  int64_t next_ns() const { return next_ns_; }
  bool is_open(int64_t now_ns) const { return open_until_ns_ > now_ns; }
  bool is_sync(int64_t now_ns) const { return sync_until_ns_ > now_ns; }

  void open_row() {
    if (takes_time()) {
      faults_.crossing += is_open(start_ns()) && open_until_ns_ < end_ns();
      extend(end_ns());
    }
    reader_.advance();
  }

  void set_next(int64_t now_ns) {
    next_ns_ = start_ns();
    if (open_until_ns_ > now_ns) next_ns_ = std::min(next_ns_, open_until_ns_);
    if (sync_until_ns_ > now_ns) next_ns_ = std::min(next_ns_, sync_until_ns_);
  }

 private:
  void extend(int64_t end_ns) {
    open_until_ns_ = std::max(open_until_ns_, end_ns);
    if (value() == kSync) sync_until_ns_ = std::max(sync_until_ns_, end_ns);
  }

  int64_t open_until_ns_ = kAlways;
  int64_t sync_until_ns_ = kAlways;
  int64_t next_ns_ = kNever;
};

}  // namespace rls
