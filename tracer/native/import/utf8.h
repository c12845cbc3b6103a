// Text that may not be UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rls {

// Returns the text with U+FFFD for every byte that is no part of valid UTF-8; `changed` is set to
// true if there was one, and left alone otherwise.
std::string to_valid_utf8(std::string_view text, bool& changed);

// Returns at most so many bytes of a text, and no part of a character at the end.
std::string_view start_of_text(std::string_view text, std::size_t bytes);

}  // namespace rls
