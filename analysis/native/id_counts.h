// How many rows of a column there are of each id, for columns that hold the same id in long runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "arrow_stream.h"

namespace rls {

// One past the last row of the run of equal ids that begins at `row`.
inline std::size_t find_run_end(const int32_t* ids, std::size_t row, std::size_t rows) {
  const int32_t id = ids[row++];
  // Blocks without an exit inside become vector instructions.
  constexpr std::size_t kBlock = 64;
  for (; row + kBlock <= rows; row += kBlock) {
    int32_t difference = 0;
    for (std::size_t i = 0; i < kBlock; ++i) difference |= ids[row + i] ^ id;
    if (difference != 0) break;
  }
  while (row < rows && ids[row] == id) ++row;
  return row;
}

struct IdCounts {
  std::unordered_map<int32_t, int64_t> rows;
  int64_t nulls = 0;
};

// Counts a column of INTEGER, the only one of the batches, to its end.
IdCounts count_ids(ArrowBatches* batches);

}  // namespace rls
