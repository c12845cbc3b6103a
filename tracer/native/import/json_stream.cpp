#include "json_stream.h"

#include <cstring>
#include <utility>

namespace rls {
namespace {

constexpr std::size_t kChunkBytes = 1 << 18;
constexpr char kNoUtf8 = '\xFF';
constexpr char kControl = '\x01';
constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

}  // namespace

JsonStream::JsonStream(ByteInput& input, std::function<void()> tick)
    : input_(input),
      tick_(std::move(tick)),
      // One more for the NUL that RapidJSON sees at the end.
      chunk_(kChunkBytes + 1),
      next_(chunk_.data()),
      end_(next_) {
  fill();
  skip_byte_order_mark();
}

void JsonStream::fill() {
  tick_();
  base_ += static_cast<std::size_t>(end_ - chunk_.data());
  const std::size_t count = input_.read(chunk_.data(), kChunkBytes);
  soften(chunk_.data(), chunk_.data() + count);
  chunk_[count] = '\0';
  next_ = chunk_.data();
  end_ = next_ + count;
}

void JsonStream::skip_byte_order_mark() {
  if (end_ - next_ > 3 && std::memcmp(next_, kByteOrderMark, 3) == 0) next_ += 3;
}

void JsonStream::soften(char* begin, char* end) {
  for (char* at = begin; at != end; ++at) {
    const char c = *at;
    if (!in_string_) {
      in_string_ = c == '"';
      if (c == '\0') *at = kControl;
    } else if (escaped_) {
      escaped_ = false;
    } else if (c == '"') {
      in_string_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *at = kNoUtf8;
    }
  }
}

}  // namespace rls
