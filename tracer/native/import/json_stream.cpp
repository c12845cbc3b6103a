#include "json_stream.h"

#include <cstring>
#include <utility>

namespace rls {
namespace {

constexpr std::size_t kChunkBytes = 1 << 18;
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
  std::size_t count = 0;
  std::size_t kept = static_cast<std::size_t>(end_ - chunk_.data());
  do {
    tick_();
    base_ += kept + filter_.left_out();
    count = input_.read(chunk_.data(), kChunkBytes);
    kept = filter_.apply(chunk_.data(), count);
  } while (count > 0 && kept == 0);
  chunk_[kept] = '\0';
  next_ = chunk_.data();
  end_ = next_ + kept;
}

void JsonStream::skip_byte_order_mark() {
  if (end_ - next_ > 3 && std::memcmp(next_, kByteOrderMark, 3) == 0) next_ += 3;
}

}  // namespace rls
