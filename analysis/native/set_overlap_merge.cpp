#include "set_overlap_merge.h"

#include <algorithm>
#include <cstddef>

namespace rls {
namespace {

// Writers may write two keys more than they keep.
constexpr std::size_t kSlack = 2;

// How many of the first `count` keys of both runs together come from a.
std::size_t Split(const Key* a, std::size_t a_size, const Key* b, std::size_t b_size,
                  std::size_t count) {
  std::size_t least = count > b_size ? count - b_size : 0;
  std::size_t most = std::min(count, a_size);
  while (least < most) {
    const std::size_t middle = (least + most) / 2;
    if (a[middle] < b[count - 1 - middle]) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

// Two ends of two runs: after `step` keys, `taken` came from a and the rest from b.
template <std::ptrdiff_t kStep>
struct End {
  const Key* a;
  const Key* b;
  Key* out;
  std::ptrdiff_t taken;

  void Take(std::ptrdiff_t step) {
    const Key a_key = a[kStep * taken];
    const Key b_key = b[kStep * (step - taken)];
    const bool is_a = kStep > 0 ? a_key < b_key : b_key < a_key;
    out[kStep * step] = is_a ? a_key : b_key;
    taken += is_a;
  }
};

// From both ends and from the middle both ways: four chains of dependent loads side by side, none
// of which needs to know where the others are. A run that is used up shows its guard, or a key
// beyond the middle: both lose every comparison.
void MergeGuarded(const Key* a, std::size_t a_size, const Key* b, std::size_t b_size, Key* out) {
  const std::size_t size = a_size + b_size;
  const std::size_t half = size / 2;
  const std::size_t a_half = Split(a, a_size, b, b_size, half);
  const Key* const a_middle = a + a_half;
  const Key* const b_middle = b + (half - a_half);
  End<1> front{a, b, out, 0};
  End<-1> middle_back{a_middle - 1, b_middle - 1, out + half - 1, 0};
  End<1> middle{a_middle, b_middle, out + half, 0};
  End<-1> back{a + a_size - 1, b + b_size - 1, out + size - 1, 0};
  const auto quarter = static_cast<std::ptrdiff_t>(half / 2);
  for (std::ptrdiff_t step = 0; step < quarter; ++step) {
    front.Take(step);
    middle_back.Take(step);
    middle.Take(step);
    back.Take(step);
  }
  // What division by four has left over.
  if (half % 2 != 0) front.Take(quarter);
  const auto rest = static_cast<std::ptrdiff_t>(size - half) - quarter;
  for (std::ptrdiff_t step = quarter; step < rest; ++step) middle.Take(step);
}

}  // namespace

void RunMerger::Clear() {
  used_ = 0;
  runs_.clear();
}

std::size_t RunMerger::Reserve(std::size_t capacity) {
  const std::size_t offset = used_ + 1;
  if (keys_.size() < offset + capacity + 1) keys_.resize((offset + capacity + 1) * 2);
  keys_[used_] = 0;
  return offset;
}

Key* RunMerger::Begin(std::size_t capacity) { return &keys_[Reserve(capacity + kSlack)]; }

void RunMerger::End(std::size_t size) {
  if (size == 0) return;
  runs_.push_back({used_ + 1, size});
  used_ += size + 2;
  keys_[used_ - 1] = kKeyLimit;
}

RunMerger::Run RunMerger::MergeTwo(Run a, Run b) {
  const std::size_t size = a.size + b.size;
  const std::size_t offset = Reserve(size);
  Key* keys = keys_.data();
  MergeGuarded(keys + a.offset, a.size, keys + b.offset, b.size, keys + offset);
  keys[offset + size] = kKeyLimit;
  used_ = offset + size + 1;
  return {offset, size};
}

// Always the two shortest runs (Huffman's order): a key of a long run is moved few times. The runs
// that were made come out in order of size, so two queues do instead of a heap.
const Key* RunMerger::Merge(std::size_t* size) {
  if (runs_.empty()) {
    *size = 0;
    return nullptr;
  }
  std::sort(runs_.begin(), runs_.end(), [](Run a, Run b) { return a.size < b.size; });
  merged_.clear();
  std::size_t next = 0;
  std::size_t next_merged = 0;
  const auto shortest = [&] {
    const bool from_runs = next_merged == merged_.size() ||
                           (next < runs_.size() && runs_[next].size <= merged_[next_merged].size);
    return from_runs ? runs_[next++] : merged_[next_merged++];
  };
  for (std::size_t left = runs_.size(); left > 1; --left) {
    const Run a = shortest();
    const Run b = shortest();
    merged_.push_back(MergeTwo(a, b));
  }
  const Run all = shortest();
  *size = all.size;
  return &keys_[all.offset];
}

}  // namespace rls
