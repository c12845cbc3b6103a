#include "thread_sweep_stretches.h"

namespace rls {
namespace {

constexpr uint8_t kFirstBusyKind = 1;
constexpr uint8_t kLastBusyKind = 4;  // 5 is a stream that waits

}  // namespace

void GpuBusy::enter(int32_t place, const Bounds& bounds) {
  edges_.clear();
  busy_before_ns_.assign(1, 0);
  for (reader_.enter(place); reader_.start_ns() != kNever; reader_.advance()) {
    if (reader_.value() < kFirstBusyKind || reader_.value() > kLastBusyKind) continue;
    const int64_t row_start_ns = reader_.start_ns();
    reversed_ += reader_.end_ns() < row_start_ns && bounds.counts(row_start_ns);
    const int64_t start_ns = std::max(row_start_ns, bounds.window_start_ns);
    const int64_t end_ns = std::min(reader_.end_ns(), bounds.window_end_ns);
    if (end_ns <= start_ns) continue;
    if (edges_.empty() || start_ns > edges_.back()) {
      edges_.push_back(start_ns);
      edges_.push_back(end_ns);
    } else {
      edges_.back() = std::max(edges_.back(), end_ns);
    }
  }
  for (std::size_t i = 0; i < edges_.size(); i += 2) {
    busy_before_ns_.push_back(busy_before_ns_.back() + edges_[i + 1] - edges_[i]);
  }
}

void Stretches::enter(int64_t start_ns, bool gpu_is_measured) {
  gpu_is_measured_ = gpu_is_measured;
  has_run_ = false;
  now_ns_ = start_ns;
  ends_ = ThreadEnds{start_ns, start_ns, 0, 0};
  const std::vector<int64_t>& edges = busy_.edges();
  edge_ = static_cast<std::size_t>(std::lower_bound(edges.begin(), edges.end(), start_ns) -
                                   edges.begin());
}

// Writes all stretches but the last, which may go on after the next change.
void Stretches::pass_many(int64_t now_ns) {
  const std::vector<int64_t>& edges = busy_.edges();
  const std::size_t first = edge_;
  std::size_t step = kMany;
  while (first + 2 * step < edges.size() && edges[first + 2 * step] < now_ns) step *= 2;
  const auto from = edges.begin() + static_cast<std::ptrdiff_t>(first + step);
  const auto to =
      edges.begin() + static_cast<std::ptrdiff_t>(std::min(first + 2 * step, edges.size()));
  // The last edge before now_ns.
  const std::size_t last =
      static_cast<std::size_t>(std::lower_bound(from, to, now_ns) - edges.begin()) - 1;

  const uint64_t gpu = (first + 1) & 1U;  // what edge `first` begins
  turn(key_ | gpu, edges[first]);
  end_run(edges[first + 1]);
  const std::size_t runs = last - first - 1;  // from edge first + 1 to edge last
  const int64_t busy_ns = busy_.busy_ns(first + 1, last);
  const int64_t idle_ns = edges[last] - edges[first + 1] - busy_ns;
  const std::size_t other_runs = (runs + 1) / 2;
  // The last stretch of either kind ends at edge `last` or the one before it.
  const bool other_is_last = runs % 2 == 1;
  totals_->add(key_ | (gpu ^ 1U), gpu == 1 ? idle_ns : busy_ns, static_cast<int64_t>(other_runs),
               edges[first + 1], edges[other_is_last ? last : last - 1]);
  totals_->add(key_ | gpu, gpu == 1 ? busy_ns : idle_ns, static_cast<int64_t>(runs / 2),
               edges[first + 2], edges[other_is_last ? last - 1 : last]);
  run_key_ = key_ | ((last + 1) & 1U);
  run_start_ns_ = edges[last];
  edge_ = last + 1;
}

ThreadEnds Stretches::leave(int64_t end_ns) {
  pass(end_ns);
  end_run(end_ns);
  ends_.end_ns = end_ns;
  ends_.last_key = run_key_;
  return ends_;
}

}  // namespace rls
