#include "segment_writer.h"

#include <stdexcept>

#include "thread_sweep_rows.h"

namespace rls {

void SegmentChannel::push(std::unique_ptr<SegmentBatch> batch) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return waiting_ == nullptr || is_closed_; });
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
  changed_.wait(lock, [this] { return waiting_ != nullptr || is_finished_; });
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

void SegmentWriter::hand_over() {
  channel_->push(std::move(batch_));
  batch_ = std::make_unique<SegmentBatch>();
}

}  // namespace rls
