// How many rows of a column there are of each id, for columns that hold the same id in long runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "arrow_abi.h"

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

// A stream of one INTEGER column.
class IdColumn {
 public:
  // Takes the stream over. Throws ColumnError where it has other columns.
  IdColumn(ArrowArrayStream* stream, std::string table);
  ~IdColumn();
  IdColumn(const IdColumn&) = delete;
  IdColumn& operator=(const IdColumn&) = delete;

  // Reads it to its end. Throws ColumnError where that fails.
  IdCounts count();

 private:
  void check_schema();
  bool next();
  [[noreturn]] void fail();
  void release_array();

  ArrowArrayStream stream_;
  ArrowArray array_{};
  std::string table_;
};

}  // namespace rls
