#include "perfetto_arrow.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace rls::timeline {

namespace {

[[noreturn]] void fail(ArrowArrayStream* stream) {
  const char* message = stream->get_last_error(stream);
  throw std::runtime_error(message != nullptr ? message : "the query failed");
}

}  // namespace

ColumnStream::ColumnStream(ArrowArrayStream* stream, int64_t columns) : stream_(*stream) {
  stream->release = nullptr;
  try {
    check_schema(columns);
  } catch (...) {
    stream_.release(&stream_);
    throw;
  }
}

ColumnStream::~ColumnStream() {
  release_batch();
  if (stream_.release != nullptr) stream_.release(&stream_);
}

void ColumnStream::check_schema(int64_t columns) {
  ArrowSchema schema = {};
  if (stream_.get_schema(&stream_, &schema) != 0) fail(&stream_);
  std::string wrong;
  if (schema.n_children != columns) wrong = "a wrong number of columns";
  for (int64_t i = 0; wrong.empty() && i < columns; ++i) {
    if (std::strcmp(schema.children[i]->format, "l") != 0) {
      wrong = std::string(schema.children[i]->name) + " is not BIGINT";
    }
  }
  schema.release(&schema);
  if (!wrong.empty()) throw std::runtime_error("export query: " + wrong);
}

void ColumnStream::release_batch() {
  if (batch_.release != nullptr) batch_.release(&batch_);
  batch_ = {};
}

bool ColumnStream::next_batch() {
  do {
    release_batch();
    if (stream_.get_next(&stream_, &batch_) != 0) fail(&stream_);
    if (batch_.release == nullptr) return false;
  } while (batch_.length == 0);
  return true;
}

}  // namespace rls::timeline
