// Decimal numbers in text as integers: exact, never by way of a floating-point number.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rls {

struct ExactInteger {
  std::int64_t value;
  bool rounded;  // the text says more than the value: it had digits behind the last one
};

// Reads a JSON number, shifted by `shift` decimal places, half away from zero where it is rounded:
// with shift 3, microseconds become nanoseconds. Nothing if it is no number or out of range.
std::optional<ExactInteger> parse_decimal(std::string_view text, int shift);

}  // namespace rls
