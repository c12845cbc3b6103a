#include "id_counts.h"

#include <cstring>
#include <utility>

#include "arrow_stream.h"

namespace rls {
namespace {

bool is_null(const ArrowArray& column, std::size_t row) {
  const auto* bits = static_cast<const uint8_t*>(column.buffers[0]);
  return ((bits[row / 8] >> (row % 8)) & 1) == 0;
}

void count_batch(const ArrowArray& batch, IdCounts* counts) {
  const ArrowArray& column = *batch.children[0];
  const auto* ids = static_cast<const int32_t*>(column.buffers[1]);
  auto row = static_cast<std::size_t>(column.offset + batch.offset);
  const std::size_t past = row + static_cast<std::size_t>(batch.length);
  if (column.null_count == 0 || column.buffers[0] == nullptr) {
    while (row < past) {
      const std::size_t end = find_run_end(ids, row, past);
      counts->rows[ids[row]] += static_cast<int64_t>(end - row);
      row = end;
    }
    return;
  }
  for (; row < past; ++row) {
    if (is_null(column, row)) {
      ++counts->nulls;
    } else {
      ++counts->rows[ids[row]];
    }
  }
}

}  // namespace

IdColumn::IdColumn(ArrowArrayStream* stream, std::string table)
    : stream_(*stream), table_(std::move(table)) {
  // Ownership moves: the capsule it came in sees a released stream.
  stream->release = nullptr;
  try {
    check_schema();
  } catch (...) {
    stream_.release(&stream_);
    throw;
  }
}

IdColumn::~IdColumn() {
  release_array();
  stream_.release(&stream_);
}

IdCounts IdColumn::count() {
  IdCounts counts;
  while (next()) count_batch(array_, &counts);
  return counts;
}

void IdColumn::check_schema() {
  ArrowSchema schema{};
  if (stream_.get_schema(&stream_, &schema) != 0) fail();
  const bool fits = schema.n_children == 1 && std::strcmp(schema.children[0]->format, "i") == 0;
  schema.release(&schema);
  if (!fits) throw ColumnError(table_ + " has columns of other types");
}

// False at the end.
bool IdColumn::next() {
  release_array();
  if (stream_.get_next(&stream_, &array_) != 0) fail();
  return array_.release != nullptr;
}

void IdColumn::fail() {
  const char* reason = stream_.get_last_error(&stream_);
  throw ColumnError("cannot read " + table_ + ": " + (reason != nullptr ? reason : "no reason"));
}

void IdColumn::release_array() {
  if (array_.release != nullptr) array_.release(&array_);
  array_.release = nullptr;
}

}  // namespace rls
