#include "set_overlap_input.h"

#include <algorithm>
#include <utility>

namespace rls {
namespace {

struct Order {
  bool starts = true;
  bool ends = true;  // where asked for
};

// Without branches in the loop: it reads as fast as memory allows.
template <bool kEnds>
Order OrderOf(const IntervalChunk& all) {
  Order order;
  bool reversed = all.size != 0 && all.end[0] < all.start[0];
  for (std::size_t row = 1; row < all.size; ++row) {
    order.starts &= all.start[row] >= all.start[row - 1];
    if (kEnds) order.ends &= all.end[row] >= all.end[row - 1];
    reversed |= all.end[row] < all.start[row];
  }
  if (reversed) throw OverlapInputError("an interval ends before it starts");
  return order;
}

// Expects order by start.
void Unite(IntervalColumns* columns) {
  std::size_t kept = 0;
  for (std::size_t row = 0; row < columns->start.size(); ++row) {
    const Time start = columns->start[row];
    const Time end = columns->end[row];
    if (kept != 0 && start <= columns->end[kept - 1]) {
      columns->end[kept - 1] = std::max(columns->end[kept - 1], end);
      continue;
    }
    columns->start[kept] = start;
    columns->end[kept] = end;
    ++kept;
  }
  columns->start.resize(kept);
  columns->end.resize(kept);
}

}  // namespace

IntervalChunk OrderIntervals(const IntervalChunk& all, bool for_windows,
                             std::deque<IntervalColumns>* owned) {
  const Order order = for_windows ? OrderOf<true>(all) : OrderOf<false>(all);
  if (order.starts && order.ends) return all;
  owned->emplace_back();
  IntervalColumns& columns = owned->back();
  columns.start.assign(all.start, all.start + all.size);
  columns.end.assign(all.end, all.end + all.size);
  if (!order.starts) {
    std::vector<std::pair<Time, Time>> rows(all.size);
    for (std::size_t row = 0; row < all.size; ++row) rows[row] = {all.start[row], all.end[row]};
    std::sort(rows.begin(), rows.end());
    for (std::size_t row = 0; row < all.size; ++row) {
      columns.start[row] = rows[row].first;
      columns.end[row] = rows[row].second;
    }
  }
  Unite(&columns);
  return columns.chunk();
}

std::deque<IntervalColumns> GroupByCode(const std::int32_t* code, const IntervalChunk& all,
                                        std::size_t categories) {
  std::vector<std::size_t> sizes(categories);
  for (std::size_t row = 0; row < all.size; ++row) {
    if (code[row] < 0 || static_cast<std::size_t>(code[row]) >= categories) {
      throw OverlapInputError("the code of an interval is not one of a category");
    }
    ++sizes[static_cast<std::size_t>(code[row])];
  }
  std::deque<IntervalColumns> groups(categories);
  std::vector<std::pair<Time*, Time*>> next;
  for (std::size_t category = 0; category < categories; ++category) {
    groups[category].start.resize(sizes[category]);
    groups[category].end.resize(sizes[category]);
    next.emplace_back(groups[category].start.data(), groups[category].end.data());
  }
  for (std::size_t row = 0; row < all.size; ++row) {
    auto& [start, end] = next[static_cast<std::size_t>(code[row])];
    *start++ = all.start[row];
    *end++ = all.end[row];
  }
  return groups;
}

std::vector<Time> CutTimes(const std::vector<IntervalChunk>& categories, std::size_t windows) {
  constexpr std::size_t kSamples = 1024;
  std::vector<std::pair<Time, double>> samples;  // an instant, and how many intervals it stands for
  double total = 0;
  for (const IntervalChunk& all : categories) {
    const std::size_t count = std::min(all.size, kSamples);
    for (std::size_t at = 0; at < count; ++at) {
      samples.emplace_back(all.start[at * all.size / count],
                           static_cast<double>(all.size) / static_cast<double>(count));
    }
    total += static_cast<double>(all.size);
  }
  std::sort(samples.begin(), samples.end());
  std::vector<Time> cuts;
  double passed = 0;
  for (const auto& [time, weight] : samples) {
    const double wanted = total * static_cast<double>(cuts.size() + 1);
    const bool is_new = time > (cuts.empty() ? INT64_MIN : cuts.back()) && time < INT64_MAX;
    if (passed * static_cast<double>(windows) >= wanted && is_new && cuts.size() + 1 < windows) {
      cuts.push_back(time);
    }
    passed += weight;
  }
  return cuts;
}

IntervalChunk SliceIntervals(const IntervalChunk& all, Time begin, Time end) {
  // Nothing is cut off then, and ends need not rise.
  const auto first =
      begin == INT64_MIN ? 0 : std::upper_bound(all.end, all.end + all.size, begin) - all.end;
  const auto last = std::lower_bound(all.start, all.start + all.size, end) - all.start;
  if (last <= first) return {};
  return {all.start + first, all.end + first, static_cast<std::size_t>(last - first)};
}

OwnerChunk SliceOwners(const OwnerChunk& all, Time begin, Time end) {
  const auto before = [](const OwnerChange& change, Time time) { return change.time < time; };
  const OwnerChange* const stop = all.change + all.size;
  const OwnerChange* first = std::lower_bound(all.change, stop, begin, before);
  // Whoever owns the begin took over before it.
  if (first != all.change && (first == stop || first->time != begin)) --first;
  const OwnerChange* const last = std::lower_bound(first, stop, end, before);
  return {first, static_cast<std::size_t>(last - first)};
}

}  // namespace rls
