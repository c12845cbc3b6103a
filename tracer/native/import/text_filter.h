// Makes the bytes of JSON fit for a strict parser that keeps every text whole: without what would
// end the parse for nothing, and with no text longer than a limit.
#pragma once

#include <cstddef>
#include <vector>

namespace rls {

class TextFilter {
 public:
  // Filters the next bytes in place; returns how many are left. Control characters in strings
  // become a byte that no UTF-8 has, and a NUL elsewhere, which RapidJSON takes for the end,
  // another control character. What a string has beyond kMaxRawTextBytes is left out, and a number
  // beyond kMaxNumberBytes ends the parse.
  std::size_t apply(char* text, std::size_t count);

  // How many bytes were left out before this place of what apply() returned last.
  std::size_t left_out_before(std::size_t place) const;
  std::size_t left_out() const { return left_out_before(static_cast<std::size_t>(-1)); }
  bool found_long_number() const { return found_long_number_; }

 private:
  struct Gap {
    std::size_t place;
    std::size_t bytes;
  };

  char* outside(char* at, const char* end);
  char* inside(char* at, const char* end);
  char* near_limit(char* at, const char* end);
  // Returns the end of the string, or of the bytes.
  char* skip(char* at, const char* end);
  void track_escape(char c);

  std::vector<Gap> gaps_;
  bool in_string_ = false;
  bool escaped_ = false;
  bool cutting_ = false;
  bool found_long_number_ = false;
  std::size_t string_bytes_ = 0;
  std::size_t number_bytes_ = 0;
  // Of the escape \uXXXX that is under way: how many digits are to come, and what they say so far.
  int digits_left_ = 0;
  unsigned unit_ = 0;
};

}  // namespace rls
