#include "arrow_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rls {
namespace {

constexpr int64_t kColumns = 4;

class StreamSource : public RowSource {
 public:
  StreamSource(ArrowArrayStream* stream, std::string table, const char* value_format)
      : stream_(*stream), table_(std::move(table)) {
    // Ownership moves: the capsule it came in sees a released stream.
    stream->release = nullptr;
    try {
      check_schema(value_format);
    } catch (...) {
      stream_.release(&stream_);
      throw;
    }
  }

  ~StreamSource() override {
    release_array();
    stream_.release(&stream_);
  }

  StreamSource(const StreamSource&) = delete;
  StreamSource& operator=(const StreamSource&) = delete;

  bool next(RowBatch* batch) override {
    do {
      release_array();
      if (stream_.get_next(&stream_, &array_) != 0) fail();
      if (array_.release == nullptr) return false;
    } while (array_.length == 0);
    if (array_.n_children != kColumns) throw ColumnError(table_ + " has other columns");
    batch->rows = static_cast<std::size_t>(array_.length);
    batch->id = column<int32_t>(0);
    batch->start_ns = column<int64_t>(1);
    batch->end_ns = column<int64_t>(2);
    batch->value = value_is_byte_ ? static_cast<const void*>(column<uint8_t>(3))
                                  : static_cast<const void*>(column<int32_t>(3));
    return true;
  }

 private:
  void check_schema(const char* value_format) {
    ArrowSchema schema{};
    if (stream_.get_schema(&stream_, &schema) != 0) fail();
    const char* formats[kColumns] = {"i", "l", "l", value_format};
    bool fits = schema.n_children == kColumns;
    for (int64_t i = 0; fits && i < kColumns; ++i) {
      fits = std::strcmp(schema.children[i]->format, formats[i]) == 0;
    }
    schema.release(&schema);
    if (!fits) throw ColumnError(table_ + " has columns of other types");
    value_is_byte_ = std::strcmp(value_format, "C") == 0;
  }

  template <typename T>
  const T* column(int64_t index) const {
    const ArrowArray& child = *array_.children[index];
    if (child.null_count != 0 && child.buffers[0] != nullptr && has_null(child)) {
      throw ColumnError(table_ + " holds NULL where a row needs a value");
    }
    return static_cast<const T*>(child.buffers[1]) + child.offset + array_.offset;
  }

  // null_count may be -1, not known: then the bitmap tells.
  bool has_null(const ArrowArray& child) const {
    const auto* bits = static_cast<const uint8_t*>(child.buffers[0]);
    for (int64_t i = 0; i < array_.length; ++i) {
      const int64_t at = i + child.offset + array_.offset;
      if (((bits[at / 8] >> (at % 8)) & 1) == 0) return true;
    }
    return false;
  }

  void release_array() {
    if (array_.release != nullptr) array_.release(&array_);
    array_.release = nullptr;
  }

  [[noreturn]] void fail() {
    const char* reason = stream_.get_last_error(&stream_);
    throw ColumnError("cannot read " + table_ + ": " + (reason != nullptr ? reason : "no reason"));
  }

  ArrowArrayStream stream_;
  std::string table_;
  ArrowArray array_{};
  bool value_is_byte_ = false;
};

class MemorySource : public RowSource {
 public:
  MemorySource(const RowBatch& columns, std::size_t value_size, std::size_t slice_rows)
      : columns_(columns), value_size_(value_size), slice_rows_(slice_rows) {}

  bool next(RowBatch* batch) override {
    if (done_ == columns_.rows) return false;
    batch->rows = std::min(slice_rows_, columns_.rows - done_);
    batch->id = columns_.id + done_;
    batch->start_ns = columns_.start_ns + done_;
    batch->end_ns = columns_.end_ns + done_;
    batch->value = static_cast<const char*>(columns_.value) + done_ * value_size_;
    done_ += batch->rows;
    return true;
  }

 private:
  RowBatch columns_;
  std::size_t value_size_;
  std::size_t slice_rows_;
  std::size_t done_ = 0;
};

}  // namespace

std::unique_ptr<RowSource> make_stream_source(ArrowArrayStream* stream, const std::string& table,
                                              const char* value_format) {
  return std::make_unique<StreamSource>(stream, table, value_format);
}

std::unique_ptr<RowSource> make_memory_source(const RowBatch& columns, std::size_t value_size,
                                              std::size_t slice_rows) {
  return std::make_unique<MemorySource>(columns, value_size, slice_rows);
}

}  // namespace rls
