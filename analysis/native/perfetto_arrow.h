// Reads an Arrow C stream whose columns are all int64: what the export queries hand over.
#pragma once

#include <cstdint>

#include "arrow_abi.h"

namespace rls::timeline {

// One batch at a time, so that memory does not grow with the result.
class ColumnStream {
 public:
  // Takes the stream over from its owner. Throws std::runtime_error unless it has `columns`
  // columns of int64.
  ColumnStream(ArrowArrayStream* stream, int64_t columns);
  ~ColumnStream();
  ColumnStream(const ColumnStream&) = delete;
  ColumnStream& operator=(const ColumnStream&) = delete;

  // Moves to the next batch with rows; false at the end. Throws std::runtime_error with the
  // message of the producer.
  bool next_batch();
  int64_t rows() const { return batch_.length; }

  bool is_null(int64_t column, int64_t row) const {
    const ArrowArray& array = *batch_.children[column];
    const auto* valid = static_cast<const uint8_t*>(array.buffers[0]);
    const auto bit = static_cast<uint64_t>(array.offset + batch_.offset + row);
    return valid != nullptr && ((valid[bit >> 3] >> (bit & 7)) & 1) == 0;
  }

  int64_t value(int64_t column, int64_t row) const {
    const ArrowArray& array = *batch_.children[column];
    return static_cast<const int64_t*>(array.buffers[1])[array.offset + batch_.offset + row];
  }

 private:
  void check_schema(int64_t columns);
  void release_batch();

  ArrowArrayStream stream_;
  ArrowArray batch_ = {};
};

}  // namespace rls::timeline
