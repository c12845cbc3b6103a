// The rows of an overlap while it is computed: one per (owner, set of categories).
//
// Three ways to find a row. Of few categories the set is a place in a table. Of up to 64 it is the
// bits of a word, found by their hash. Of more it is a hash that is kept up to date as categories
// come and go, with the members of every known set beside it: equal hashes are never taken for
// equal sets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "set_overlap_cursor.h"
#include "set_overlap_index.h"

namespace rls {

// The first row stands for time in which nothing is open and nothing active.
constexpr RowId kGap = 0;

struct Tally {
  std::uint64_t time_ns = 0;
  std::uint64_t count = 0;
  Time first_ns = 0;
  Time last_ns = 0;

  // Takes in what comes later.
  void Append(const Tally& later) {
    if (count == 0) first_ns = later.first_ns;
    time_ns += later.time_ns;
    count += later.count;
    last_ns = later.last_ns;
  }
};

struct Row {
  Tally tally;
  std::uint64_t set = 0;  // the bits, or where the members begin
  Owner owner = kNone;
  std::uint32_t size = 0;  // of the set
};

// Appends a row for a set that is new; the one place where rows begin.
inline RowId AddRow(std::vector<Row>* rows, Owner owner) {
  if (rows->size() == kNoRow) throw std::length_error("more than 4 billion sets of categories");
  rows->push_back({});
  rows->back().owner = owner;
  return static_cast<RowId>(rows->size() - 1);
}

// Unannotated time in which some category is active belongs to a row even though nothing is open.
// Without a branch: that some category is active is as good as random.
inline Owner RowOwner(Owner owner, bool any_active) {
  return owner | (static_cast<Owner>(owner == kNone) & static_cast<Owner>(any_active));
}

// A set of up to 64 categories.
struct SmallSet {
  std::uint64_t bits = 0;

  void Toggle(std::uint32_t code) { bits ^= std::uint64_t{1} << code; }
  void ToggleIf(bool wanted, std::uint32_t code) {
    bits ^= static_cast<std::uint64_t>(wanted) << code % 64;
  }
};

class SmallRows {
 public:
  using Set = SmallSet;
  static constexpr unsigned kCodeBits = kSmallCodeBits;
  static constexpr std::uint32_t kMostCategories = 64;

  SmallRows(std::uint32_t /*categories*/, std::size_t /*owners*/) { Find(Set{}, kNone); }

  Set EmptySet() const { return {}; }
  Set SetOf(const Row& row) const { return {row.set}; }
  // The owner in the form that Find wants: whoever asks often converts it once.
  Owner KeyOf(Owner owner) const { return owner; }
  Tally& tally(RowId id) { return rows[id].tally; }
  Owner owner(RowId id) const { return rows[id].owner; }

  RowId Find(Set set, Owner owner) {
    owner = RowOwner(owner, set.bits != 0);
    const std::uint64_t hash = Mix(set.bits + owner * 0x9e3779b97f4a7c15U);
    const RowId id = index_.Find(hash, [&](RowId known) {
      return rows[known].set == set.bits && rows[known].owner == owner;
    });
    return id != kNoRow ? id : Add(set, owner, hash);
  }

  template <class Visit>
  void ForEachMember(const Row& row, Visit visit) const {
    for (std::uint64_t rest = row.set; rest != 0; rest &= rest - 1) {
      visit(static_cast<std::uint32_t>(__builtin_ctzll(rest)));
    }
  }

  // Orders as SortedSetKey says, completely.
  static std::uint64_t SortKeyOf(const Row& row) { return SortedSetKey(row.set); }
  static bool IsSetBefore(const Row& /*a*/, const Row& /*b*/) { return false; }

  std::vector<Row> rows;

 private:
  [[gnu::noinline]] RowId Add(Set set, Owner owner, std::uint64_t hash) {
    const RowId id = AddRow(&rows, owner);
    rows[id].set = set.bits;
    rows[id].size = static_cast<std::uint32_t>(__builtin_popcountll(set.bits));
    index_.Insert(hash, id);
    return id;
  }

  FlatIndex index_;
};

// For sweeps only; what they give is moved into SmallRows at the end. Not where an operation bears
// the name of unannotated time: its rows would have two places.
class TableRows {
 public:
  using Set = SmallSet;
  static constexpr unsigned kCodeBits = kSmallCodeBits;

  static bool Fits(std::size_t categories, std::size_t owners, std::size_t intervals) {
    constexpr std::size_t kMost = std::size_t{1} << 19;
    const std::size_t worth = 4096 + 4 * intervals;
    return categories <= 16 && owners << categories <= std::min(kMost, worth);
  }

  TableRows(std::uint32_t categories, std::size_t owners)
      : categories_(categories), tallies_(owners << categories) {}

  Set EmptySet() const { return {}; }
  Owner KeyOf(Owner owner) const { return owner << categories_; }
  Tally& tally(RowId id) { return tallies_[id]; }
  Owner owner(RowId id) const {
    const bool is_unannotated = id != kGap && id >> categories_ == kNone;
    return is_unannotated ? RowOwner(kNone, true) : id >> categories_;
  }
  RowId Find(Set set, Owner owner_key) const { return owner_key | static_cast<RowId>(set.bits); }

  std::size_t size() const { return tallies_.size(); }
  Set SetAt(RowId id) const { return {id & ((RowId{1} << categories_) - 1)}; }

 private:
  std::uint32_t categories_;
  std::vector<Tally> tallies_;
};

class LargeRows {
 public:
  struct Set {
    std::vector<std::uint64_t> words;
    std::uint64_t hash = 0;
    std::uint32_t size = 0;

    bool Has(std::uint32_t code) const { return (words[code / 64] >> code % 64 & 1) != 0; }
    void Toggle(std::uint32_t code) {
      words[code / 64] ^= std::uint64_t{1} << code % 64;
      size += Has(code) ? 1U : UINT32_MAX;
      hash ^= Mix(code + 0x9e3779b97f4a7c15U);
    }
    void ToggleIf(bool wanted, std::uint32_t code) {
      if (wanted) Toggle(code);
    }
  };

  static constexpr unsigned kCodeBits = kLargeCodeBits;

  LargeRows(std::uint32_t categories, std::size_t /*owners*/) : words_(categories / 64 + 1) {
    Find(EmptySet(), kNone);
  }

  Set EmptySet() const {
    Set set;
    set.words.resize(words_);
    return set;
  }
  Set SetOf(const Row& row) const {
    Set set = EmptySet();
    ForEachMember(row, [&](std::uint32_t code) { set.Toggle(code); });
    return set;
  }
  Owner KeyOf(Owner owner) const { return owner; }
  Tally& tally(RowId id) { return rows[id].tally; }
  Owner owner(RowId id) const { return rows[id].owner; }

  RowId Find(const Set& set, Owner owner) {
    owner = RowOwner(owner, set.size != 0);
    const std::uint64_t hash = Mix(set.hash + owner);
    const RowId known = index_.Find(hash, [&](RowId id) { return Is(rows[id], set, owner); });
    if (known != kNoRow) return known;
    const RowId id = AddRow(&rows, owner);
    rows[id].set = members_.size();
    rows[id].size = set.size;
    AddMembers(set);
    index_.Insert(hash, id);
    return id;
  }

  template <class Visit>
  void ForEachMember(const Row& row, Visit visit) const {
    for (std::uint32_t at = 0; at < row.size; ++at) visit(members_[row.set + at]);
  }

  // Tells sets apart that differ before kTail; the other members count as one that stands there.
  std::uint64_t SortKeyOf(const Row& row) const {
    constexpr std::uint32_t kTail = 63;
    std::uint64_t bits = 0;
    for (std::uint32_t at = 0; at < row.size; ++at) {
      const std::uint32_t code = std::min(kTail, members_[row.set + at]);
      bits |= std::uint64_t{1} << code;
      if (code == kTail) break;
    }
    return SortedSetKey(bits);
  }
  bool IsSetBefore(const Row& a, const Row& b) const {
    const std::uint32_t* const of_a = members_.data() + a.set;
    const std::uint32_t* const of_b = members_.data() + b.set;
    return std::lexicographical_compare(of_a, of_a + a.size, of_b, of_b + b.size);
  }

  std::vector<Row> rows;

 private:
  bool Is(const Row& row, const Set& set, Owner owner) const {
    if (row.owner != owner || row.size != set.size) return false;
    const std::uint32_t* const members = members_.data() + row.set;
    return std::all_of(members, members + row.size,
                       [&](std::uint32_t code) { return set.Has(code); });
  }

  void AddMembers(const Set& set) {
    for (std::size_t word = 0; word < set.words.size(); ++word) {
      for (std::uint64_t rest = set.words[word]; rest != 0; rest &= rest - 1) {
        members_.push_back(static_cast<std::uint32_t>(word * 64) +
                           static_cast<std::uint32_t>(__builtin_ctzll(rest)));
      }
    }
  }

  std::size_t words_;
  std::vector<std::uint32_t> members_;
  FlatIndex index_;
};

}  // namespace rls
