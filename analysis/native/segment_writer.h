// Hands the segments of a sweep to whoever reads them, batch by batch, in memory that does not
// grow.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rls {

// Columns of equal length. A key is that of ThreadTotal.
struct SegmentBatch {
  static constexpr std::size_t kRows = 1 << 15;

  std::size_t rows = 0;
  std::array<int32_t, kRows> thread_id;
  std::array<int64_t, kRows> start_ns;
  std::array<int64_t, kRows> end_ns;
  std::array<int32_t, kRows> path_id;
  std::array<uint8_t, kRows> state;
  std::array<uint8_t, kRows> layer;
  std::array<uint8_t, kRows> wait;
  std::array<uint8_t, kRows> gpu;

  void add(int32_t thread, uint64_t key, int64_t from_ns, int64_t to_ns) {
    thread_id[rows] = thread;
    start_ns[rows] = from_ns;
    end_ns[rows] = to_ns;
    path_id[rows] = static_cast<int32_t>(key >> 32);
    state[rows] = static_cast<uint8_t>(key >> 24);
    layer[rows] = static_cast<uint8_t>(key >> 16);
    wait[rows] = static_cast<uint8_t>(key >> 8);
    gpu[rows] = static_cast<uint8_t>(key);
    ++rows;
  }
};

// Between one thread that sweeps and one that reads. The former waits while the latter has enough.
class SegmentChannel {
 public:
  // Throws Cancelled once nobody reads any more.
  void push(std::unique_ptr<SegmentBatch> batch);
  // There is no more; error: why, if that is not because all of it was handed over.
  void finish(std::string error);

  // Waits for the next batch; nullptr after the last one. Throws std::runtime_error with the error.
  std::unique_ptr<SegmentBatch> next();
  // Nobody reads any more.
  void close();

 private:
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition is_met);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<SegmentBatch> waiting_;
  bool is_finished_ = false;
  bool is_closed_ = false;
  std::string error_;
};

// Which intervals of which threads are wanted: segments are cut at their ends, and all else
// is left out. Those of one thread are in order and do not overlap.
class SegmentSelection {
 public:
  struct Interval {
    int64_t start_ns;
    int64_t end_ns;
  };

  // Throws std::invalid_argument where they are not in order.
  void add(int32_t thread_id, Interval interval);
  // Of a thread, those that end after an instant; empty: none.
  std::pair<const Interval*, const Interval*> after(int32_t thread_id, int64_t ns) const;

 private:
  std::unordered_map<int32_t, std::vector<Interval>> intervals_;
};

// Where nobody asks for segments.
struct NoSegments {
  static constexpr bool kWanted = false;
  void enter(int32_t) {}
};

// Neighbours that agree are one segment, also where a sweep ends and the next goes on.
class SegmentWriter {
 public:
  static constexpr bool kWanted = true;

  // selection: what is wanted; nullptr: everything.
  SegmentWriter(std::shared_ptr<SegmentChannel> channel,
                std::shared_ptr<const SegmentSelection> selection)
      : channel_(std::move(channel)),
        selection_(std::move(selection)),
        batch_(std::make_unique<SegmentBatch>()) {}

  // The segments that follow are of this thread.
  void enter(int32_t thread_id) { entered_ = thread_id; }

  void add(uint64_t key, int64_t start_ns, int64_t end_ns) {
    if (key == key_ && start_ns == end_ns_ && entered_ == thread_id_) {
      end_ns_ = end_ns;
      return;
    }
    write_last();
    thread_id_ = entered_;
    key_ = key;
    start_ns_ = start_ns;
    end_ns_ = end_ns;
  }

  // After the last sweep; error: it failed.
  void finish(std::string error);
  // Called by another thread: the sweep is to end.
  void close() { channel_->close(); }

 private:
  void write_last() {
    if (start_ns_ == end_ns_) return;  // there was none yet
    if (selection_ != nullptr) return write_selected();
    write(start_ns_, end_ns_);
  }
  void write(int64_t start_ns, int64_t end_ns) {
    batch_->add(thread_id_, key_, start_ns, end_ns);
    if (__builtin_expect(batch_->rows == SegmentBatch::kRows, 0)) hand_over();
  }
  void write_selected();
  void hand_over();

  std::shared_ptr<SegmentChannel> channel_;
  std::shared_ptr<const SegmentSelection> selection_;
  std::unique_ptr<SegmentBatch> batch_;
  int32_t entered_ = 0;
  // The segment that may still grow.
  int32_t thread_id_ = 0;
  uint64_t key_ = 0;
  int64_t start_ns_ = 0;
  int64_t end_ns_ = 0;
};

}  // namespace rls
