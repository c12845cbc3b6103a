// Which range lies in which, from their times alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rls {

// Columns of ranges, in the order of (thread, start, -end): an outer range before those in it.
struct Ranges {
  const std::int32_t* thread_id;
  const std::int64_t* start_ns;
  const std::int64_t* end_ns;
  std::size_t count;
};

struct Nesting {
  std::vector<std::int32_t> depth;   // how many ranges are open around it
  std::vector<std::int64_t> parent;  // row of the one opened last that is still open; -1: none
  // Ranges that end after a range that is open when they begin: kept, their parent found as always.
  std::int64_t crossing_count = 0;
  std::int64_t first_crossing_ns = 0;
};

// Throws std::invalid_argument if the rows are not in order.
Nesting nest(const Ranges& ranges);

// The distinct stacks of ranges, as a tree: parents come before their children, ids count from 1.
struct PathTree {
  std::vector<std::int32_t> path_id;  // per range; 0: beyond the limits
  // Per path.
  std::vector<std::int32_t> parent_path_id;  // 0: none
  std::vector<std::int64_t> key;
  std::vector<std::int32_t> depth;
};

struct PathLimits {
  std::size_t paths;
  std::int32_t depth;
};

// key: what tells two ranges with the same parent apart; parent as in Nesting.
PathTree intern_paths(const std::int64_t* parent, const std::int64_t* key, std::size_t count,
                      const PathLimits& limits);

}  // namespace rls
