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

// The batches of an Arrow C stream, one after the other.
class ArrowBatches {
 public:
  // Takes the stream over. Throws ColumnError where its columns do not have these Arrow formats.
  ArrowBatches(ArrowArrayStream* stream, std::string table,
               const std::vector<const char*>& formats);
  ~ArrowBatches();
  ArrowBatches(const ArrowBatches&) = delete;
  ArrowBatches& operator=(const ArrowBatches&) = delete;

  // The next batch, valid until the one after it; nullptr: there is none. Empty ones are passed
  // over. Throws ColumnError where reading fails.
  const ArrowArray* next();

  const std::string& table() const { return table_; }

 private:
  void check_schema(const std::vector<const char*>& formats);
  void release_array();
  [[noreturn]] void fail();

  ArrowArrayStream stream_;
  ArrowArray array_{};
  std::string table_;
  int64_t columns_;
};

// Of a batch: the values of a column, and whether a row of it has none.
template <typename T>
const T* values_of(const ArrowArray& batch, std::size_t column) {
  const ArrowArray& child = *batch.children[column];
  return static_cast<const T*>(child.buffers[1]) + child.offset + batch.offset;
}
inline bool may_hold_null(const ArrowArray& batch, std::size_t column) {
  const ArrowArray& child = *batch.children[column];
  return child.null_count != 0 && child.buffers[0] != nullptr;
}
inline bool is_null(const ArrowArray& batch, std::size_t column, int64_t row) {
  const ArrowArray& child = *batch.children[column];
  const int64_t at = row + child.offset + batch.offset;
  return ((static_cast<const uint8_t*>(child.buffers[0])[at / 8] >> (at % 8)) & 1) == 0;
}

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
