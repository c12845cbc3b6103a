#include "nesting/nesting.h"

#include <functional>
#include <queue>
#include <stdexcept>
#include <unordered_map>

namespace rls {
namespace {

// The open ranges of one thread. Ranges that cross close in another order than that of a stack, so
// how many are open is counted apart from which was opened last.
class OpenRanges {
 public:
  explicit OpenRanges(const std::int64_t* end_ns) : end_ns_(end_ns) {}

  void clear() {
    rows_.clear();
    ends_ns_ = {};
  }

  void close_until(std::int64_t now_ns) {
    while (!ends_ns_.empty() && ends_ns_.top() <= now_ns) ends_ns_.pop();
    // A closed one below an open one stays until it surfaces.
    while (!rows_.empty() && end_ns_[rows_.back()] <= now_ns) rows_.pop_back();
  }

  // Returns whether the range outlives the one that is around it.
  bool open(std::int64_t row) {
    const bool crosses = !rows_.empty() && end_ns_[rows_.back()] < end_ns_[row];
    rows_.push_back(row);
    ends_ns_.push(end_ns_[row]);
    return crosses;
  }

  std::int64_t top() const { return rows_.empty() ? -1 : rows_.back(); }
  std::size_t size() const { return ends_ns_.size(); }

 private:
  const std::int64_t* end_ns_;
  std::vector<std::int64_t> rows_;
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> ends_ns_;
};

bool in_order(const Ranges& ranges, std::size_t row) {
  const std::size_t before = row - 1;
  if (ranges.thread_id[before] != ranges.thread_id[row]) {
    return true;  // threads may come in any order, as long as each comes once
  }
  if (ranges.start_ns[before] != ranges.start_ns[row]) {
    return ranges.start_ns[before] < ranges.start_ns[row];
  }
  return ranges.end_ns[before] >= ranges.end_ns[row];
}

struct PathKey {
  std::int32_t parent;
  std::int64_t key;
  bool operator==(const PathKey& other) const { return parent == other.parent && key == other.key; }
};

struct PathKeyHash {
  std::size_t operator()(const PathKey& path) const {
    const auto mixed =
        (static_cast<std::uint64_t>(path.parent) << 32) ^ static_cast<std::uint64_t>(path.key);
    return std::hash<std::uint64_t>{}(mixed * 0x9e3779b97f4a7c15ULL);
  }
};

}  // namespace

Nesting nest(const Ranges& ranges) {
  Nesting nesting;
  nesting.depth.resize(ranges.count);
  nesting.parent.resize(ranges.count);
  OpenRanges open(ranges.end_ns);
  for (std::size_t row = 0; row < ranges.count; ++row) {
    if (row > 0 && !in_order(ranges, row)) {
      throw std::invalid_argument("ranges are not in the order of (thread, start, -end)");
    }
    if (row > 0 && ranges.thread_id[row - 1] != ranges.thread_id[row]) open.clear();
    open.close_until(ranges.start_ns[row]);
    nesting.depth[row] = static_cast<std::int32_t>(open.size());
    nesting.parent[row] = open.top();
    if (open.open(static_cast<std::int64_t>(row)) && nesting.crossing_count++ == 0) {
      nesting.first_crossing_ns = ranges.start_ns[row];
    }
  }
  return nesting;
}

PathTree intern_paths(const std::int64_t* parent, const std::int64_t* key, std::size_t count,
                      const PathLimits& limits) {
  PathTree tree;
  tree.path_id.resize(count);
  std::unordered_map<PathKey, std::int32_t, PathKeyHash> known;
  for (std::size_t row = 0; row < count; ++row) {
    if (parent[row] >= static_cast<std::int64_t>(row)) {
      throw std::invalid_argument("a parent comes after its child");
    }
    const bool is_outermost = parent[row] < 0;
    const std::int32_t around =
        is_outermost ? 0 : tree.path_id[static_cast<std::size_t>(parent[row])];
    // In a range that is left out everything is.
    if (!is_outermost && around == 0) continue;
    const auto found = known.find({around, key[row]});
    if (found != known.end()) {
      tree.path_id[row] = found->second;
      continue;
    }
    const std::int32_t depth =
        is_outermost ? 0 : tree.depth[static_cast<std::size_t>(around) - 1] + 1;
    if (tree.key.size() >= limits.paths || depth >= limits.depth) continue;
    tree.parent_path_id.push_back(around);
    tree.key.push_back(key[row]);
    tree.depth.push_back(depth);
    tree.path_id[row] = static_cast<std::int32_t>(tree.key.size());
    known.emplace(PathKey{around, key[row]}, tree.path_id[row]);
  }
  return tree;
}

}  // namespace rls
