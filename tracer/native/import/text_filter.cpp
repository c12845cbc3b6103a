#include "text_filter.h"

#include <array>
#include <cstring>
#include <string_view>

#include "import_limits.h"

namespace rls {
namespace {

constexpr char kNoUtf8 = '\xFF';
constexpr char kControl = '\x01';
// A string is cut between two characters: \uD83D\uDE00 is one, and no longer one takes part.
constexpr std::size_t kLongestCharacter = 12;
constexpr std::size_t kCutFrom = kMaxRawTextBytes + 2 * kLongestCharacter;
constexpr std::size_t kCutAnyway = kMaxRawTextBytes + 4 * kLongestCharacter;

using Set = std::array<bool, 256>;

constexpr Set set_of(std::string_view members, bool with_controls) {
  Set set{};
  for (const char c : members) set[static_cast<unsigned char>(c)] = true;
  for (std::size_t c = 0; with_controls && c < 0x20; ++c) set[c] = true;
  return set;
}

// What a run of plain characters in a string ends with.
constexpr Set kSpecial = set_of("\"\\", true);
constexpr Set kOfNumbers = set_of("0123456789+-.eE", false);

bool is_in(const Set& set, char c) { return set[static_cast<unsigned char>(c)]; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 0;
}

bool is_first_half(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }

}  // namespace

std::size_t TextFilter::apply(char* text, std::size_t count) {
  gaps_.clear();
  const char* const end = text + count;
  char* to = text;
  char* at = text;
  while (at != end) {
    char* const begin = at;
    if (cutting_) {
      at = skip(at, end);
      gaps_.push_back({static_cast<std::size_t>(to - text), static_cast<std::size_t>(at - begin)});
      continue;
    }
    if (!in_string_) {
      at = outside(at, end);
    } else {
      at = string_bytes_ < kMaxRawTextBytes ? inside(at, end) : near_limit(at, end);
    }
    const auto kept = static_cast<std::size_t>(at - begin);
    if (to != begin) std::memmove(to, begin, kept);
    to += kept;
  }
  return static_cast<std::size_t>(to - text);
}

std::size_t TextFilter::left_out_before(std::size_t place) const {
  std::size_t bytes = 0;
  for (const Gap& gap : gaps_) bytes += gap.place <= place ? gap.bytes : 0;
  return bytes;
}

// Goes on to behind the quote that opens a string.
char* TextFilter::outside(char* at, const char* end) {
  for (; at != end; ++at) {
    const char c = *at;
    if (c == '"') {
      in_string_ = true;
      string_bytes_ = number_bytes_ = 0;
      return at + 1;
    }
    number_bytes_ = is_in(kOfNumbers, c) ? number_bytes_ + 1 : 0;
    if (c == '\0') *at = kControl;
    if (number_bytes_ > kMaxNumberBytes) {
      *at = kControl;
      found_long_number_ = true;
    }
  }
  return at;
}

// Goes on to behind the quote that closes the string, or to where it is nearly too long.
char* TextFilter::inside(char* at, const char* end) {
  char* const begin = at;
  const auto size = static_cast<std::size_t>(end - at);
  const std::size_t allowed = kMaxRawTextBytes - string_bytes_;
  const char* const stop = at + (size < allowed ? size : allowed);
  while (at != stop) {
    if (escaped_) {
      escaped_ = false;
      ++at;
      continue;
    }
    while (at != stop && !is_in(kSpecial, *at)) ++at;
    if (at == stop) break;
    const char c = *at;
    if (c == '"') {
      in_string_ = false;
      return at + 1;
    }
    if (c == '\\') {
      escaped_ = true;
    } else {
      *at = kNoUtf8;
    }
    ++at;
  }
  string_bytes_ += static_cast<std::size_t>(at - begin);
  return at;
}

// Takes single bytes, to find the end of a character.
char* TextFilter::near_limit(char* at, const char* end) {
  if (string_bytes_ == kMaxRawTextBytes) digits_left_ = static_cast<int>(unit_ = 0);
  for (; at != end; ++at, ++string_bytes_) {
    const bool is_between = !escaped_ && digits_left_ == 0 && !is_first_half(unit_);
    if ((is_between && string_bytes_ >= kCutFrom) || string_bytes_ >= kCutAnyway) {
      cutting_ = true;
      return at;
    }
    if (!escaped_ && *at == '"') {
      in_string_ = false;
      return at + 1;
    }
    track_escape(*at);
    if (static_cast<unsigned char>(*at) < 0x20) *at = kNoUtf8;
  }
  return at;
}

void TextFilter::track_escape(char c) {
  if (digits_left_ > 0) {
    --digits_left_;
    unit_ = unit_ * 16 + static_cast<unsigned>(hex_digit(c));
  } else if (escaped_) {
    escaped_ = false;
    unit_ = 0;
    if (c == 'u') digits_left_ = 4;
  } else if (c == '\\') {
    escaped_ = true;
  } else {
    unit_ = 0;
  }
}

char* TextFilter::skip(char* at, const char* end) {
  for (; at != end; ++at) {
    if (escaped_) {
      escaped_ = false;
      continue;
    }
    while (at != end && !is_in(kSpecial, *at)) ++at;
    if (at == end) break;
    if (*at == '"') {
      // The quote itself is kept: as that of a string which is not nearly too long any more.
      cutting_ = false;
      string_bytes_ = 0;
      break;
    }
    escaped_ = *at == '\\';
  }
  return at;
}

}  // namespace rls
