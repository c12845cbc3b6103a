#include "utf8.h"

namespace rls {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Length of the valid sequence at the start of a non-empty text; 0: there is none.
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !continues(text, 1)) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  if (first < 0xE0) return 2;
  // Overlong forms, surrogates, and what lies behind the last code point.
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
    return 0;
  }
  if (!continues(text, 2)) return 0;
  if (first < 0xF0) return 3;
  return continues(text, 3) ? 4 : 0;
}

}  // namespace

std::string to_valid_utf8(std::string_view text, bool& changed) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      valid += kReplacement;
      changed = true;
    } else {
      valid.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

std::string_view start_of_text(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  // A character has three bytes at most that continue its first.
  std::size_t end = bytes;
  while (end > 0 && bytes - end < 3 && continues(text, end)) --end;
  return text.substr(0, end);
}

}  // namespace rls
