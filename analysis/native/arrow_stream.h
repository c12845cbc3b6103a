// Reads the columns of one table in batches, from an Arrow C stream or from numpy arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrow_abi.h"

namespace rls {

// What a table holds cannot be swept; the message names the table.
class ColumnError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Rows of (id INTEGER, start_ns BIGINT, end_ns BIGINT, value); valid until the next batch is read.
struct RowBatch {
  std::size_t rows = 0;
  const int32_t* id = nullptr;
  const int64_t* start_ns = nullptr;
  const int64_t* end_ns = nullptr;
  const void* value = nullptr;  // int32_t or uint8_t, as the reader was told
};

// Yields the rows of a table in order. Not for several threads at once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Makes the next batch current; false after the last one. Batches are never empty.
  virtual bool next(RowBatch* batch) = 0;
};

// Takes over a stream whose columns have the Arrow formats i, l, l and value_format ("i" or "C").
// Throws ColumnError where the stream has other columns, holds NULL or fails.
std::unique_ptr<RowSource> make_stream_source(ArrowArrayStream* stream, const std::string& table,
                                              const char* value_format);

// Columns in memory, which must outlive the source, as one large batch cut to `slice_rows`.
std::unique_ptr<RowSource> make_memory_source(const RowBatch& columns, std::size_t value_size,
                                              std::size_t slice_rows);

}  // namespace rls
