// Merges sorted runs of 64-bit keys without branches that depend on the keys.
//
// A branch on which of two random keys comes first is mispredicted every other time, which costs
// more than the rest of the sweep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rls {

using Key = std::uint64_t;

// Keys are greater than 0 and less than kKeyLimit: these two are the guards around every run.
constexpr Key kKeyLimit = UINT64_MAX;

class RunMerger {
 public:
  void Clear();

  // Room for a run of at most `capacity` keys, to be filled before the next call.
  Key* Begin(std::size_t capacity);
  // The run in that room has `size` keys (none: forgotten); it may have written `slack` more.
  void End(std::size_t size);

  // All keys in order, valid until Clear.
  const Key* Merge(std::size_t* size);

 private:
  struct Run {
    std::size_t offset;  // in keys_; a guard before it and one behind it
    std::size_t size;
  };

  std::size_t Reserve(std::size_t capacity);
  Run MergeTwo(Run a, Run b);

  std::vector<Key> keys_;
  std::size_t used_ = 0;
  std::vector<Run> runs_;
  std::vector<Run> merged_;
};

}  // namespace rls
