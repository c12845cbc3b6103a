#include "thread_sweep_gpu.h"

namespace rls {
namespace {

constexpr uint8_t kFirstBusyKind = 1;
constexpr uint8_t kLastBusyKind = 4;  // 5 is a stream that waits

}  // namespace

void GpuBusy::enter(int32_t place, const Bounds& bounds) {
  // The last of them may still grow. Whether a row begins the next cannot be predicted: no branch.
  std::size_t last = 0;
  stretches_.assign(1, Stretch{kAlways, kAlways});
  for (reader_.enter(place); reader_.start_ns() != kNever; reader_.advance()) {
    if (reader_.value() < kFirstBusyKind || reader_.value() > kLastBusyKind) continue;
    const int64_t row_start_ns = reader_.start_ns();
    const int64_t start_ns = std::max(row_start_ns, bounds.window_start_ns);
    const int64_t end_ns = std::min(reader_.end_ns(), bounds.window_end_ns);
    if (end_ns <= start_ns) {
      reversed_ += reader_.end_ns() < row_start_ns && bounds.counts(row_start_ns);
      continue;
    }
    if (last + 1 == stretches_.size()) stretches_.resize(2 * stretches_.size() + 1);
    const Stretch before = stretches_[last];
    const bool is_next = start_ns > before.end_ns;
    last += is_next;
    stretches_[last] = {is_next ? start_ns : before.start_ns, std::max(before.end_ns, end_ns)};
  }
  stretches_.resize(last + 1);
  find_edges();
}

void GpuBusy::find_edges() {
  // Of the stretches the first is none.
  const std::size_t edges = 2 * stretches_.size();
  edges_.at_ns.resize(edges);
  edges_.offset_ns.resize(edges);
  int64_t* at_ns = edges_.at_ns.data();
  int64_t* offset_ns = edges_.offset_ns.data();
  int64_t busy_ns = 0;
  *at_ns++ = kAlways;
  *offset_ns++ = 0;
  for (std::size_t i = 1; i < stretches_.size(); ++i) {
    const auto [start_ns, end_ns] = stretches_[i];
    *at_ns++ = start_ns;
    *offset_ns++ = busy_ns;
    *at_ns++ = end_ns;
    *offset_ns++ = busy_ns - start_ns;
    busy_ns += end_ns - start_ns;
  }
  *at_ns = kNever;
  *offset_ns = busy_ns;
}

}  // namespace rls
