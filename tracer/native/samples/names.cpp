#include "samples/names.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace rls {
namespace {

constexpr std::uint64_t kCheckIntervalNs = 1000000000;
constexpr std::size_t kKnownNames = 100000;
constexpr std::size_t kCharacters = 160;
// Offsets in every object and type object of CPython.
constexpr std::size_t kObjectType = 8;
constexpr std::size_t kTypeName = 24;
// What a str says of its characters.
constexpr std::uint32_t kCompact = 1U << 5;
constexpr std::uint32_t kAscii = 1U << 6;

template <typename Value>
Value At(const std::uint8_t* bytes, std::size_t offset) {
  Value value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

void AppendUtf8(char32_t character, std::string* text) {
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  const bool control = character < 0x20 || (character >= 0x7f && character < 0xa0) ||
                       character == 0x2028 || character == 0x2029;
  if (surrogate || control || character > 0x10ffff) character = U'?';
  const auto tail = [&](unsigned shift) {
    text->push_back(static_cast<char>(0x80 | ((character >> shift) & 0x3f)));
  };
  if (character < 0x80) {
    text->push_back(static_cast<char>(character));
  } else if (character < 0x800) {
    text->push_back(static_cast<char>(0xc0 | (character >> 6)));
    tail(0);
  } else if (character < 0x10000) {
    text->push_back(static_cast<char>(0xe0 | (character >> 12)));
    tail(6);
    tail(0);
  } else {
    text->push_back(static_cast<char>(0xf0 | (character >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string Utf8(const std::u32string& characters) {
  std::string text;
  for (const char32_t character : characters) AppendUtf8(character, &text);
  return text;
}

}  // namespace

bool PythonNames::IsCodeType(std::uint64_t type) {
  if (code_type_ != 0) return type == code_type_;
  std::uint64_t name = 0;
  std::array<char, 5> text = {};
  if (!process_.Read(type + kTypeName, &name, sizeof(name)) ||
      !process_.Read(name, text.data(), text.size()) ||
      std::memcmp(text.data(), "code", text.size()) != 0)
    return false;
  code_type_ = type;
  return true;
}

std::optional<PythonNames::Source> PythonNames::ReadSource(std::uint64_t address, bool* gone) {
  std::array<std::uint8_t, 256> code = {};
  const std::size_t bytes = std::min<std::size_t>(layout_.code_bytes, code.size());
  *gone = address % 8 == 0 && !process_.Read(address, code.data(), bytes);
  if (address % 8 != 0 || *gone) return std::nullopt;
  if (!IsCodeType(At<std::uint64_t>(code.data(), kObjectType))) return std::nullopt;
  return Source{At<std::uint64_t>(code.data(), layout_.code_name),
                At<std::uint64_t>(code.data(), layout_.code_filename),
                At<std::int32_t>(code.data(), layout_.code_line)};
}

std::optional<std::u32string> PythonNames::ReadText(std::uint64_t address, bool last) const {
  std::array<std::uint8_t, 72> head = {};
  if (!process_.Read(address, head.data(), layout_.text_ascii_bytes)) return std::nullopt;
  const auto length = At<std::int64_t>(head.data(), layout_.text_length);
  const auto state = At<std::uint32_t>(head.data(), layout_.text_state);
  const std::size_t width = (state >> 2) & 7;
  if ((state & kCompact) == 0 || (width != 1 && width != 2 && width != 4) || length < 0 ||
      length > (std::int64_t{1} << 32))
    return std::nullopt;
  const std::size_t begin =
      (state & kAscii) != 0 ? layout_.text_ascii_bytes : layout_.text_compact_bytes;
  const auto total = static_cast<std::size_t>(length);
  const std::size_t count = std::min(total, kCharacters);
  const std::size_t skipped = last ? total - count : 0;
  std::array<std::uint8_t, 4 * kCharacters> bytes = {};
  if (!process_.Read(address + begin + skipped * width, bytes.data(), count * width))
    return std::nullopt;
  std::u32string text;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t character = 0;
    std::memcpy(&character, bytes.data() + i * width, width);
    text.push_back(character);
  }
  if (count < total && !last) text += U"...";
  return text;
}

std::optional<std::string> PythonNames::ReadName(const Source& source) const {
  const std::optional<std::u32string> name = ReadText(source.name, false);
  std::optional<std::u32string> file = ReadText(source.filename, true);
  if (!name || !file) return std::nullopt;
  const std::size_t slash = file->rfind(U'/');
  if (slash != std::u32string::npos) file->erase(0, slash + 1);
  return Utf8(*name) + " (" + Utf8(*file) + ':' + std::to_string(source.line) + ')';
}

const std::string* PythonNames::FindKnown(std::uint64_t address) const {
  const auto found = known_.find(address);
  return found == known_.end() ? nullptr : &found->second.text;
}

void PythonNames::Trim() {
  if (known_.size() >= kKnownNames) known_.clear();
}

const std::string* PythonNames::Find(std::uint64_t address, std::uint64_t now_ns) {
  const auto found = known_.find(address);
  const bool known = found != known_.end();
  if (known && now_ns - found->second.checked_ns < kCheckIntervalNs) return &found->second.text;
  bool gone = false;
  const std::optional<Source> source = ReadSource(address, &gone);
  // What was known of a process that is gone still holds.
  if (!source) return known && gone ? &found->second.text : nullptr;
  if (known && found->second.source == *source) {
    found->second.checked_ns = now_ns;
    return &found->second.text;
  }
  const std::optional<std::string> text = ReadName(*source);
  if (!text) return nullptr;
  return &(known_[address] = {*source, now_ns, *text}).text;
}

}  // namespace rls
