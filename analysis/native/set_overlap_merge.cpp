#include "set_overlap_merge.h"

#include <algorithm>

namespace rls {
namespace {

// Writers may write two keys more than they keep.
constexpr std::size_t kSlack = 2;

// The first half from the front, the rest from the back: neither needs to look at the other. A run
// that is used up shows its guard, which loses every comparison.
void MergeGuarded(const Key* a, std::size_t a_size, const Key* b, std::size_t b_size, Key* out) {
  const std::size_t size = a_size + b_size;
  const Key* a_back = a + a_size - 1;
  const Key* b_back = b + b_size - 1;
  Key* out_back = out + size - 1;
  for (std::size_t left = size / 2; left != 0; --left) {
    const Key a_key = *a;
    const Key b_key = *b;
    const std::size_t take_b = b_key < a_key;
    *out++ = take_b ? b_key : a_key;
    b += take_b;
    a += 1 - take_b;
    const Key a_last = *a_back;
    const Key b_last = *b_back;
    const std::size_t take_a = b_last < a_last;
    *out_back-- = take_a ? a_last : b_last;
    a_back -= take_a;
    b_back -= 1 - take_a;
  }
  if (size % 2 != 0) *out = std::min(*a, *b);
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
