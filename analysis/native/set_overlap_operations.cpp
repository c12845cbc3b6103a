#include "set_overlap_operations.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace rls {
namespace {

class OperationArray final : public OperationSource {
 public:
  explicit OperationArray(OperationChunk all) : rest_(all) {}
  OperationChunk Next() override {
    const OperationChunk all = rest_;
    rest_ = {};
    return all;
  }

 private:
  OperationChunk rest_;
};

bool OpensBefore(const OperationChunk& all, std::size_t a, std::size_t b) {
  return all.start[a] != all.start[b] ? all.start[a] < all.start[b] : all.end[a] > all.end[b];
}

bool InOrder(const OperationChunk& all) {
  for (std::size_t row = 1; row < all.size; ++row) {
    if (OpensBefore(all, row, row - 1)) return false;
  }
  return true;
}

std::vector<OwnerChange> Drain(OperationChunk all) {
  OperationArray source(all);
  OperationFlattener flattener(&source);
  std::vector<OwnerChange> changes;
  for (OwnerChunk chunk = flattener.Next(); chunk.size != 0; chunk = flattener.Next()) {
    changes.insert(changes.end(), chunk.change, chunk.change + chunk.size);
  }
  return changes;
}

}  // namespace

void OperationFlattener::Check(const OperationChunk& chunk, std::size_t row) {
  const Time start = chunk.start[row];
  const Time end = chunk.end[row];
  if (end < start) throw OverlapInputError("an operation ends before it starts");
  if (chunk.code[row] < kUnannotated) throw OverlapInputError("the code of an operation is < -1");
  if (started_ && (start < last_start_ || (start == last_start_ && end > last_end_))) {
    throw OverlapInputError("operations are not ordered by start, longer ones first");
  }
  started_ = true;
  last_start_ = start;
  last_end_ = end;
}

void OperationFlattener::Emit(Time time, Owner owner) {
  // Of several changes at one instant only the last one owns any time.
  if (!changes_.empty() && changes_.back().time == time) {
    changes_.back().owner = owner;
  } else {
    changes_.push_back({time, owner});
  }
}

void OperationFlattener::CloseUntil(Time until) {
  while (!open_.empty() && open_.back().end <= until) {
    const Time time = open_.back().end;
    // Badly nested operations may have ended below the one on top.
    while (!open_.empty() && open_.back().end <= time) open_.pop_back();
    Emit(time, open_.empty() ? kNone : open_.back().owner);
  }
}

OwnerChunk OperationFlattener::Next() {
  released_.clear();
  while (released_.empty() && !ended_) {
    const OperationChunk chunk = source_->Next();
    for (std::size_t row = 0; row < chunk.size; ++row) {
      Check(chunk, row);
      if (chunk.start[row] == chunk.end[row]) continue;
      CloseUntil(chunk.start[row]);
      open_.push_back({chunk.end[row], OwnerOf(chunk.code[row])});
      Emit(chunk.start[row], open_.back().owner);
    }
    if (chunk.size == 0) {
      ended_ = true;
      CloseUntil(INT64_MAX);
      released_.swap(changes_);
    } else if (changes_.size() > 1) {
      // The next chunk may open another operation at the instant of the last change.
      const OwnerChange last = changes_.back();
      changes_.pop_back();
      released_.swap(changes_);
      changes_.assign(1, last);
    }
  }
  return {released_.data(), released_.size()};
}

std::vector<OwnerChange> FlattenOperations(const OperationChunk& operations) {
  if (InOrder(operations)) return Drain(operations);
  std::vector<std::size_t> order(operations.size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return OpensBefore(operations, a, b); });
  std::vector<std::int32_t> code;
  std::vector<Time> start;
  std::vector<Time> end;
  for (const std::size_t row : order) {
    code.push_back(operations.code[row]);
    start.push_back(operations.start[row]);
    end.push_back(operations.end[row]);
  }
  return Drain({code.data(), start.data(), end.data(), order.size()});
}

}  // namespace rls
