#include "thread_sweep_gpu.h"

#include <algorithm>

namespace rls {
namespace {

constexpr uint8_t kFirstBusyKind = 1;
constexpr uint8_t kLastBusyKind = 4;  // 5 is a stream that waits

}  // namespace

void GpuEdges::finish(std::size_t last_edge) {
  int64_t* const at_ns = at_ns_.data();
  at_ns[0] = kAlways;
  std::fill_n(at_ns + last_edge + 1, kSeenAtOnce, kNever);
  count_ = last_edge + 2;
  busy_ns_.make_room(last_edge / 2 + 1, 0);
  int64_t* busy_ns = busy_ns_.data();
  int64_t sum_ns = 0;
  for (std::size_t edge = 1; edge < last_edge; edge += 2) {
    *busy_ns++ = sum_ns;
    sum_ns += at_ns[edge + 1] - at_ns[edge];
  }
  *busy_ns = sum_ns;
}

void GpuBusy::enter(int32_t place, const Bounds& bounds) {
  // The end of the last interval, which may still grow. Whether a row begins the next cannot be
  // predicted: no branch. A start that does not is written where the next may be.
  std::size_t edge = 0;
  int64_t busy_until_ns = kAlways;
  const int64_t first_ns = std::max(bounds.window_start_ns, -kLastTime);
  const int64_t last_ns = std::min(bounds.window_end_ns, kLastTime);
  int64_t* at_ns = nullptr;
  std::size_t rows = 0;
  for (reader_.enter(place); reader_.start_ns() != kNever; reader_.advance()) {
    if (rows == 0) {
      rows = reader_.rows_at_hand();
      at_ns = edges_.room_after(edge, 2 * rows);
    }
    --rows;
    if (reader_.value() < kFirstBusyKind || reader_.value() > kLastBusyKind) continue;
    const int64_t row_start_ns = reader_.start_ns();
    const int64_t start_ns = std::max(row_start_ns, first_ns);
    const int64_t end_ns = std::min(reader_.end_ns(), last_ns);
    if (end_ns <= start_ns) {
      reversed_ += reader_.end_ns() < row_start_ns && bounds.counts(row_start_ns);
      continue;
    }
    at_ns[edge + 1] = start_ns;
    edge += 2 * std::size_t{start_ns > busy_until_ns};
    busy_until_ns = std::max(busy_until_ns, end_ns);
    at_ns[edge] = busy_until_ns;
  }
  edges_.finish(edge);
}

}  // namespace rls
