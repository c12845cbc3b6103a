// Overlap of sets: for every instant the categories that are active together and the operation that
// owns the time; for every such pair the time, the number of intervals and their extent.
//
// Such an interval is a maximal piece of time with one pair: [start, end), in nanoseconds.
#pragma once

#include <memory>
#include <vector>

#include "set_overlap_sweep.h"

namespace rls {

struct OverlapOptions {
  unsigned jobs = 1;     // threads; the result does not depend on it
  unsigned windows = 0;  // pieces of time to sweep on their own; 0: chosen by size
  bool with_transitions = false;
};

// Rows in order: operations by the first instant they own, sets as sorted lists of codes.
class OverlapResult {
 public:
  virtual ~OverlapResult() = default;
  std::size_t size() const { return order_.size(); }
  virtual const Row& row(std::size_t position) const = 0;
  // The codes of the set in ascending order, appended.
  virtual void AppendCodes(std::size_t position, std::vector<std::int32_t>* codes) const = 0;
  // From and to are positions of rows; in their order. Empty unless asked for.
  const std::vector<Transition>& transitions() const { return transitions_; }

 protected:
  std::vector<RowId> order_;
  std::vector<Transition> transitions_;
};

// Arrays in any order; categories and operations are known by their code, the position in
// `categories` or what operations.code says (kUnannotated: named like unannotated time).
//
// Throws OverlapInputError for an end before its start, std::overflow_error where a sum exceeds 63
// bits.
std::unique_ptr<OverlapResult> OverlapArrays(const std::vector<IntervalChunk>& categories,
                                             const OperationChunk& operations,
                                             const OverlapOptions& options);

// Pulls ordered sources; holds one chunk of each and the rows. `operations` may be null.
std::unique_ptr<OverlapResult> OverlapStreams(const std::vector<IntervalSource*>& categories,
                                              OperationSource* operations, bool with_transitions);

}  // namespace rls
