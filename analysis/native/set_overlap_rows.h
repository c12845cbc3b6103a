// The rows of an overlap while it is computed: one per (owner, set of categories), found by hash.
//
// Two kinds of set: of up to 64 categories the bits themselves, of more a hash that is kept up to
// date as categories come and go, with the members of every known set beside it. Equal hashes are
// never taken for equal sets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "set_overlap_source.h"

namespace rls {

using RowId = std::uint32_t;
constexpr RowId kNoRow = UINT32_MAX;
// The first row stands for time in which nothing is open and nothing active.
constexpr RowId kGap = 0;

struct Row {
  std::uint64_t time_ns = 0;
  std::uint64_t count = 0;
  Time first_ns = 0;
  Time last_ns = 0;
  std::uint64_t set = 0;  // the bits, or where the members begin
  Owner owner = kNone;
  std::uint32_t size = 0;  // of members, where those are stored
};

inline std::uint64_t Mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// Hash -> id, with open addressing. Eight bytes a place: it stays in the cache where rows do not.
class FlatIndex {
 public:
  FlatIndex() : places_(16) {}

  // The id under `hash` for which is_it(id) holds, or kNoRow.
  template <class IsIt>
  RowId Find(std::uint64_t hash, IsIt is_it) const {
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = tag >> shift_;; at = (at + 1) & mask) {
      const Place& place = places_[at];
      if (place.id == kNoRow) return kNoRow;
      if (place.tag == tag && is_it(place.id)) return place.id;
    }
  }

  // `id` must not be there yet.
  void Insert(std::uint64_t hash, RowId id) {
    if (++used_ * 4 > places_.size() * 3) Grow();
    Put({static_cast<std::uint32_t>(hash >> 32), id});
  }

 private:
  struct Place {
    std::uint32_t tag = 0;  // its upper bits are the place
    RowId id = kNoRow;
  };

  void Put(Place place) {
    std::size_t at = place.tag >> shift_;
    while (places_[at].id != kNoRow) at = (at + 1) & (places_.size() - 1);
    places_[at] = place;
  }

  void Grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    --shift_;
    for (const Place& place : old) {
      if (place.id != kNoRow) Put(place);
    }
  }

  std::vector<Place> places_;
  unsigned shift_ = 28;  // 32 - log2(places)
  std::size_t used_ = 0;
};

// Appends a row for a set that is new, first seen at `first_ns`; the one place where rows begin.
inline RowId AddRow(std::vector<Row>* rows, Owner owner, Time first_ns) {
  if (rows->size() == kNoRow) throw std::length_error("more than 4 billion sets of categories");
  Row row;
  row.owner = owner;
  row.first_ns = first_ns;
  rows->push_back(row);
  return static_cast<RowId>(rows->size() - 1);
}

// Unannotated time in which some category is active belongs to a row even though nothing is open.
// Without a branch: that some category is active is as good as random.
inline Owner RowOwner(Owner owner, bool any_active) {
  return owner | (static_cast<Owner>(owner == kNone) & static_cast<Owner>(any_active));
}

// Rows whose sets are bits of one word.
class SmallRows {
 public:
  struct Set {
    std::uint64_t bits = 0;
    void Toggle(std::uint32_t code) { bits ^= std::uint64_t{1} << code; }
    void ToggleIf(bool wanted, std::uint32_t code) {
      bits ^= static_cast<std::uint64_t>(wanted) << code % 64;
    }
  };

  // `owners`: how many there may be, or 0 where that is not known.
  SmallRows(std::uint32_t categories, std::size_t owners) : categories_(categories) {
    constexpr std::size_t kTableLimit = std::size_t{1} << 16;
    if (owners != 0 && categories < 16 && owners << categories <= kTableLimit) {
      table_.assign(owners << categories, kNoRow);
    }
    Find(Set{}, kNone, 0);
  }

  Set EmptySet() const { return {}; }
  Set SetOf(const Row& row) const { return {row.set}; }

  // The row of the set; if it is new, it begins at first_ns.
  RowId Find(Set set, Owner owner, Time first_ns) {
    RowId id;
    if (!table_.empty()) {
      id = table_[TablePlace(set, owner)];
    } else {
      const Owner of_row = RowOwner(owner, set.bits != 0);
      id = index_.Find(HashOf(set, of_row), [&](RowId known) {
        return rows[known].set == set.bits && rows[known].owner == of_row;
      });
    }
    return id != kNoRow ? id : Add(set, owner, first_ns);
  }

  template <class Visit>
  void ForEachMember(const Row& row, Visit visit) const {
    for (std::uint64_t rest = row.set; rest != 0; rest &= rest - 1) {
      visit(static_cast<std::uint32_t>(__builtin_ctzll(rest)));
    }
  }

  // In the order of sorted lists: at the first difference, who lacks it comes later or has ended.
  static bool IsSetBefore(const Row& a, const Row& b) {
    if (a.set == b.set) return false;
    const int first = __builtin_ctzll(a.set ^ b.set);
    const bool in_a = (a.set >> first & 1) != 0;
    return in_a ? b.set >> first != 0 : a.set >> first == 0;
  }

  std::vector<Row> rows;

 private:
  static std::uint64_t HashOf(Set set, Owner of_row) {
    return Mix(set.bits + of_row * 0x9e3779b97f4a7c15U);
  }
  std::size_t TablePlace(Set set, Owner owner) const {
    return std::size_t{owner} << categories_ | set.bits;
  }

  [[gnu::noinline]] RowId Add(Set set, Owner owner, Time first_ns) {
    const Owner of_row = RowOwner(owner, set.bits != 0);
    if (!table_.empty() && owner != of_row) {
      // The table is asked for the owner as it is: both places name the one row.
      const RowId id = Find(set, of_row, first_ns);
      table_[TablePlace(set, owner)] = id;
      return id;
    }
    const RowId id = AddRow(&rows, of_row, first_ns);
    rows[id].set = set.bits;
    rows[id].size = static_cast<std::uint32_t>(__builtin_popcountll(set.bits));
    if (table_.empty()) {
      index_.Insert(HashOf(set, of_row), id);
    } else {
      table_[TablePlace(set, owner)] = id;
    }
    return id;
  }

  std::uint32_t categories_;
  std::vector<RowId> table_;  // by owner and set, where they are few
  FlatIndex index_;
};

// Rows whose sets may have any number of members.
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

  LargeRows(std::uint32_t categories, std::size_t /*owners*/) : words_(categories / 64 + 1) {
    Find(EmptySet(), kNone, 0);
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

  RowId Find(const Set& set, Owner owner, Time first_ns) {
    owner = RowOwner(owner, set.size != 0);
    const std::uint64_t hash = Mix(set.hash + owner);
    const RowId known = index_.Find(hash, [&](RowId id) { return Is(rows[id], set, owner); });
    if (known != kNoRow) return known;
    const RowId id = AddRow(&rows, owner, first_ns);
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
