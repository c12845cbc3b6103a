#include "arrow_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rls {
namespace {

class StreamSource : public RowSource {
 public:
  StreamSource(ArrowArrayStream* stream, const std::string& table, const char* value_format)
      : batches_(stream, table, {"i", "l", "l", value_format}),
        value_is_byte_(std::strcmp(value_format, "C") == 0) {}

  bool next(RowBatch* rows) override {
    const ArrowArray* const batch = batches_.next();
    if (batch == nullptr) return false;
    rows->rows = static_cast<std::size_t>(batch->length);
    rows->id = column<int32_t>(*batch, 0);
    rows->start_ns = column<int64_t>(*batch, 1);
    rows->end_ns = column<int64_t>(*batch, 2);
    rows->value = value_is_byte_ ? static_cast<const void*>(column<uint8_t>(*batch, 3))
                                 : static_cast<const void*>(column<int32_t>(*batch, 3));
    return true;
  }

 private:
  template <typename T>
  const T* column(const ArrowArray& batch, std::size_t index) const {
    // null_count may be -1, not known: then the bitmap tells.
    for (int64_t row = 0; may_hold_null(batch, index) && row < batch.length; ++row) {
      if (is_null(batch, index, row)) {
        throw ColumnError(batches_.table() + " holds NULL where a row needs a value");
      }
    }
    return values_of<T>(batch, index);
  }

  ArrowBatches batches_;
  bool value_is_byte_;
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

ArrowBatches::ArrowBatches(ArrowArrayStream* stream, std::string table,
                           const std::vector<const char*>& formats)
    : stream_(*stream), table_(std::move(table)), columns_(static_cast<int64_t>(formats.size())) {
  // Ownership moves: the capsule it came in sees a released stream.
  stream->release = nullptr;
  try {
    check_schema(formats);
  } catch (...) {
    stream_.release(&stream_);
    throw;
  }
}

ArrowBatches::~ArrowBatches() {
  release_array();
  stream_.release(&stream_);
}

const ArrowArray* ArrowBatches::next() {
  do {
    release_array();
    if (stream_.get_next(&stream_, &array_) != 0) fail();
    if (array_.release == nullptr) return nullptr;
  } while (array_.length == 0);
  if (array_.n_children != columns_) throw ColumnError(table_ + " has other columns");
  return &array_;
}

void ArrowBatches::check_schema(const std::vector<const char*>& formats) {
  ArrowSchema schema{};
  if (stream_.get_schema(&stream_, &schema) != 0) fail();
  bool fits = schema.n_children == columns_;
  for (std::size_t i = 0; fits && i < formats.size(); ++i) {
    fits = std::strcmp(schema.children[i]->format, formats[i]) == 0;
  }
  schema.release(&schema);
  if (!fits) throw ColumnError(table_ + " has columns of other types");
}

void ArrowBatches::release_array() {
  if (array_.release != nullptr) array_.release(&array_);
  array_.release = nullptr;
}

void ArrowBatches::fail() {
  const char* reason = stream_.get_last_error(&stream_);
  throw ColumnError("cannot read " + table_ + ": " + (reason != nullptr ? reason : "no reason"));
}

std::unique_ptr<RowSource> make_stream_source(ArrowArrayStream* stream, const std::string& table,
                                              const char* value_format) {
  return std::make_unique<StreamSource>(stream, table, value_format);
}

std::unique_ptr<RowSource> make_memory_source(const RowBatch& columns, std::size_t value_size,
                                              std::size_t slice_rows) {
  return std::make_unique<MemorySource>(columns, value_size, slice_rows);
}

}  // namespace rls
