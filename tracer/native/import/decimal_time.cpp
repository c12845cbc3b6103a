#include "decimal_time.h"

#include <limits>

namespace rls {
namespace {

constexpr std::uint64_t kMaxMagnitude = std::numeric_limits<std::int64_t>::max();
// No exponent beyond it makes a difference: the value is out of range, or zero.
constexpr std::int64_t kExponentLimit = 1'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Multiplies by ten and adds; false at overflow.
bool append_digit(std::uint64_t& magnitude, unsigned digit) {
  if (magnitude > (kMaxMagnitude - digit) / 10) return false;
  magnitude = magnitude * 10 + digit;
  return true;
}

std::optional<std::int64_t> parse_exponent(std::string_view text) {
  if (text.empty()) return 0;
  std::size_t at = 1;
  const bool negative = at < text.size() && text[at] == '-';
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  if (at == text.size()) return std::nullopt;
  std::int64_t exponent = 0;
  for (; at < text.size(); ++at) {
    if (!is_digit(text[at])) return std::nullopt;
    if (exponent < kExponentLimit) exponent = exponent * 10 + (text[at] - '0');
  }
  return negative ? -exponent : exponent;
}

// The digits of a number without its point, and how many of them stand before the point.
struct Digits {
  std::string_view whole;
  std::string_view fraction;
  std::int64_t point;

  unsigned at(std::size_t index) const {
    const char c = index < whole.size() ? whole[index] : fraction[index - whole.size()];
    return static_cast<unsigned>(c - '0');
  }
  std::size_t size() const { return whole.size() + fraction.size(); }
};

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

std::optional<Digits> split(std::string_view text, int shift) {
  Digits digits{};
  digits.whole = take_digits(text);
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    digits.fraction = take_digits(text);
  }
  if (digits.size() == 0 || (!text.empty() && text.front() != 'e' && text.front() != 'E')) {
    return std::nullopt;
  }
  const auto exponent = parse_exponent(text);
  if (!exponent) return std::nullopt;
  digits.point = static_cast<std::int64_t>(digits.whole.size()) + *exponent + shift;
  return digits;
}

}  // namespace

std::optional<ExactInteger> parse_decimal(std::string_view text, int shift) {
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  const auto digits = split(text, shift);
  if (!digits) return std::nullopt;
  std::uint64_t magnitude = 0;
  bool rounded = false;
  const auto size = static_cast<std::int64_t>(digits->size());
  for (std::int64_t index = 0; index < size; ++index) {
    const unsigned digit = digits->at(static_cast<std::size_t>(index));
    if (index < digits->point) {
      if (!append_digit(magnitude, digit)) return std::nullopt;
      continue;
    }
    rounded = rounded || digit != 0;
    if (index == digits->point && digit >= 5) ++magnitude;
  }
  for (std::int64_t index = size; index < digits->point && magnitude != 0; ++index) {
    if (!append_digit(magnitude, 0)) return std::nullopt;
  }
  if (magnitude > kMaxMagnitude) return std::nullopt;
  const auto value = static_cast<std::int64_t>(magnitude);
  return ExactInteger{negative ? -value : value, rounded};
}

}  // namespace rls
