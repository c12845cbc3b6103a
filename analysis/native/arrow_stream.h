// Reads the columns of one table in batches, from an Arrow C stream or from numpy arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// The Arrow C data and stream interfaces, as their specification declares them.
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
}

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
