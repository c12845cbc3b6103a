#include "segment_writer.h"

#include <pthread.h>

#include <algorithm>
#include <stdexcept>

#include "thread_sweep_rows.h"

namespace rls {

// std::condition_variable::wait has a new version since GCC 12, which does the same: with it a
// wheel would not load beside the C++ library of RHEL 9.
template <typename Condition>
void SegmentChannel::wait(std::unique_lock<std::mutex>& lock, Condition is_met) {
  while (!is_met()) pthread_cond_wait(changed_.native_handle(), lock.mutex()->native_handle());
}

void SegmentChannel::push(std::unique_ptr<SegmentBatch> batch) {
  std::unique_lock<std::mutex> lock(mutex_);
  wait(lock, [this] { return waiting_ == nullptr || is_closed_; });
  if (is_closed_) throw Cancelled();
  waiting_ = std::move(batch);
  changed_.notify_all();
}

void SegmentChannel::finish(std::string error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_finished_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

std::unique_ptr<SegmentBatch> SegmentChannel::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  wait(lock, [this] { return waiting_ != nullptr || is_finished_; });
  if (waiting_ == nullptr && !error_.empty()) throw std::runtime_error(error_);
  changed_.notify_all();
  return std::move(waiting_);
}

void SegmentChannel::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void SegmentWriter::finish(std::string error) {
  if (error.empty()) {
    write_last();
    if (batch_->rows > 0) channel_->push(std::move(batch_));
  }
  channel_->finish(std::move(error));
}

void SegmentSelection::add(int32_t thread_id, Interval interval) {
  std::vector<Interval>& of_thread = intervals_[thread_id];
  const bool is_after = of_thread.empty() || of_thread.back().end_ns <= interval.start_ns;
  if (!is_after || interval.end_ns < interval.start_ns) {
    throw std::invalid_argument("intervals of a thread overlap, or are not in order");
  }
  of_thread.push_back(interval);
}

std::pair<const SegmentSelection::Interval*, const SegmentSelection::Interval*>
SegmentSelection::after(int32_t thread_id, int64_t ns) const {
  const auto found = intervals_.find(thread_id);
  if (found == intervals_.end()) return {nullptr, nullptr};
  const Interval* const end = found->second.data() + found->second.size();
  return {std::partition_point(found->second.data(), end,
                               [ns](const Interval& of) { return of.end_ns <= ns; }),
          end};
}

void SegmentWriter::write_selected() {
  auto [next, end] = selection_->after(thread_id_, start_ns_);
  for (; next != end && next->start_ns < end_ns_; ++next) {
    write(std::max(start_ns_, next->start_ns), std::min(end_ns_, next->end_ns));
  }
}

void SegmentWriter::hand_over() {
  channel_->push(std::move(batch_));
  batch_ = std::make_unique<SegmentBatch>();
}

}  // namespace rls
