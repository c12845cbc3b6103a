#include "shim/texts.h"

#include <utility>

namespace rls {
namespace {

// Of texts that are kept as they are: a quarter of the memory that saving may take would be too
// much for what nobody reads.
constexpr std::size_t kMaxTextBytes = 16U << 20;
// Hashes of which it is known to what they were folded.
constexpr std::size_t kMaxCanonical = 1U << 20;

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

bool IsLetter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

}  // namespace

std::string WithoutNumbers(std::string_view text) {
  std::string folded;
  bool in_number = false;
  for (const char letter : text) {
    if (!IsDigit(letter) && !(in_number && IsLetter(letter))) {
      folded += letter;
      in_number = false;
    } else if (!in_number) {
      folded += '#';
      in_number = true;
    }
  }
  return folded;
}

void ShimTexts::Add(std::uint64_t hash, std::string_view text, bool is_cut) {
  if (hash == 0 || hash == kLost || texts_.count(hash) != 0 || canonical_.count(hash) != 0) return;
  if (texts_.size() < kMaxTexts && text_bytes_ + text.size() <= kMaxTextBytes) {
    texts_.emplace(hash, text);
    text_bytes_ += text.size();
  } else if (!Fold(hash, text)) {
    return;
  }
  if (is_cut) cut_.insert(hash);
}

bool ShimTexts::Fold(std::uint64_t hash, std::string_view text) {
  ++folded_count_;
  if (canonical_.size() >= kMaxCanonical) return false;
  std::string folded = WithoutNumbers(text);
  const auto known = first_of_.find(folded);
  if (known != first_of_.end()) {
    canonical_.emplace(hash, known->second);
    return true;
  }
  const bool has_room = first_of_.size() < kMaxFolded;
  canonical_.emplace(hash, has_room ? hash : kLost);
  if (!has_room) return false;
  texts_.emplace(hash, folded);
  first_of_.emplace(std::move(folded), hash);
  return true;
}

const std::string* ShimTexts::Find(std::uint64_t hash) const {
  const auto found = texts_.find(Canonical(hash));
  return found == texts_.end() ? nullptr : &found->second;
}

std::uint64_t ShimTexts::Canonical(std::uint64_t hash) const {
  if (canonical_.empty()) return hash;
  const auto found = canonical_.find(hash);
  return found == canonical_.end() ? hash : found->second;
}

}  // namespace rls
