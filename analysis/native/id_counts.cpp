#include "id_counts.h"

#include <cstring>

#include "arrow_stream.h"

namespace rls {
namespace {

// Ends with its scope.
struct Stream {
  ArrowArrayStream stream;
  ArrowArray array{};

  // Ownership moves: the capsule it came in sees a released stream.
  explicit Stream(ArrowArrayStream* from) : stream(*from) { from->release = nullptr; }
  ~Stream() {
    release_array();
    stream.release(&stream);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool holds_integers() {
    ArrowSchema schema{};
    if (stream.get_schema(&stream, &schema) != 0) return false;
    const bool fits = schema.n_children == 1 && std::strcmp(schema.children[0]->format, "i") == 0;
    schema.release(&schema);
    return fits;
  }

  // False at the end.
  bool next(const std::string& table) {
    release_array();
    if (stream.get_next(&stream, &array) != 0) {
      const char* reason = stream.get_last_error(&stream);
      throw ColumnError("cannot read " + table + ": " +
                        (reason != nullptr ? reason : "no reason"));
    }
    return array.release != nullptr;
  }

  void release_array() {
    if (array.release != nullptr) array.release(&array);
    array.release = nullptr;
  }
};

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

IdCounts count_ids(ArrowArrayStream* from, const std::string& table) {
  Stream stream(from);
  if (!stream.holds_integers()) throw ColumnError(table + " has columns of other types");
  IdCounts counts;
  while (stream.next(table)) count_batch(stream.array, &counts);
  return counts;
}

}  // namespace rls
