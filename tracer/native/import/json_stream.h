// A ByteInput as RapidJSON reads it, tolerant of what a strict reader refuses in strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "byte_input.h"
#include "text_filter.h"

namespace rls {

class JsonStream {
 public:
  using Ch = char;

  // tick: called before every chunk that is read.
  JsonStream(ByteInput& input, std::function<void()> tick);

  char Peek() const { return *next_; }
  char Take() {
    const char c = *next_;
    if (next_ != end_ && ++next_ == end_) fill();
    return c;
  }
  // Bytes of the text that were taken.
  std::size_t Tell() const {
    const auto place = static_cast<std::size_t>(next_ - chunk_.data());
    return base_ + place + filter_.left_out_before(place);
  }
  bool at_end() const { return next_ == end_; }
  bool found_long_number() const { return filter_.found_long_number(); }

  // Of RapidJSON's stream concept, for output streams only.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }

 private:
  void fill();
  void skip_byte_order_mark();

  ByteInput& input_;
  std::function<void()> tick_;
  TextFilter filter_;
  std::vector<char> chunk_;
  const char* next_;
  const char* end_;
  std::size_t base_ = 0;
};

}  // namespace rls
