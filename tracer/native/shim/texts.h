// The texts that records name by a hash, in bounded memory.
//
// So many are kept as they are. Programs that need more write numbers into them: of further ones
// the numbers are left out ("step 4711" is "step #"), and of what remains so many are kept again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace rls {

class ShimTexts {
 public:
  // The hash of no text: what is called so has lost its name.
  static constexpr std::uint64_t kLost = UINT64_MAX;
  static constexpr std::size_t kMaxTexts = 1U << 15;
  static constexpr std::size_t kMaxFolded = 1U << 12;

  // The first text of a hash stays.
  void Add(std::uint64_t hash, std::string_view text, bool is_cut);

  // nullptr: there is none.
  const std::string* Find(std::uint64_t hash) const;
  // Of texts that became one when their numbers were left out: the hash of the first.
  std::uint64_t Canonical(std::uint64_t hash) const;
  // Whether the text is only the beginning of what it was.
  bool IsCut(std::uint64_t hash) const { return cut_.count(hash) != 0; }
  const std::unordered_set<std::uint64_t>& cut() const { return cut_; }
  // How many texts have no numbers, or are not kept at all.
  std::uint64_t folded() const { return folded_count_; }

 private:
  bool Fold(std::uint64_t hash, std::string_view text);

  std::unordered_map<std::uint64_t, std::string> texts_;
  std::size_t text_bytes_ = 0;
  std::unordered_map<std::string, std::uint64_t> first_of_;     // folded text -> hash in texts_
  std::unordered_map<std::uint64_t, std::uint64_t> canonical_;  // hash -> hash in texts_
  std::unordered_set<std::uint64_t> cut_;
  std::uint64_t folded_count_ = 0;
};

// A text without its numbers: of each word, what comes before its first digit, and #.
std::string WithoutNumbers(std::string_view text);

}  // namespace rls
