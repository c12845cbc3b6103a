// Writes protobuf's wire format: varints and messages inside messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rls::timeline {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

inline void put_varint(std::string& out, uint64_t value) {
  char bytes[10];
  size_t size = 0;
  while (value >= 0x80) {
    bytes[size++] = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes[size++] = static_cast<char>(value);
  out.append(bytes, size);
}

inline void put_tag(std::string& out, uint32_t field, WireType type) {
  put_varint(out, field << 3 | static_cast<uint32_t>(type));
}

inline void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_tag(out, field, WireType::kVarint);
  put_varint(out, value);
}

inline void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, WireType::kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// A message inside another, from construction to destruction. Its length is known at the end: one
// byte is kept free for it, and what follows is moved where that is not enough.
class Message {
 public:
  Message(std::string& out, uint32_t field) : out_(out) {
    put_tag(out, field, WireType::kBytes);
    begin_ = out.size();
    out.push_back(0);
  }
  ~Message() {
    const size_t size = out_.size() - begin_ - 1;
    if (size < 0x80) {
      out_[begin_] = static_cast<char>(size);
      return;
    }
    std::string length;
    put_varint(length, size);
    out_.replace(begin_, 1, length);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

 private:
  std::string& out_;
  size_t begin_;
};

}  // namespace rls::timeline
