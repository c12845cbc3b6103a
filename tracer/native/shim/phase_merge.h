// The program's own ranges and the phases found automatically, on one thread: where both say the
// same, the program's win.
//
// A range of the program whose inside is one phase, to 95 % of the time that phases cover there, is
// the program's name for that phase: the phase is taken away inside all ranges of that name. Inside
// a range that holds several phases (an iteration, a training loop) they stay, nested in it. A
// phase that crosses the beginning or the end of a range is cut there. A range within one phase is
// nested in that.
//
// The environment steps of a phase are those of its last part, which is where they ended; the other
// parts have 0. Of a part that is taken away they are the range's that stands for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace rls {

// Columns of the ranges of one thread, in the order of (start, -end).
struct PhaseInput {
  const std::int64_t* start_ns;
  const std::int64_t* end_ns;
  const std::int32_t* key;  // equal: the same name
  const std::uint8_t* is_auto;
  std::size_t count;
  // Environment steps of each; negative: not known. nullptr: of none.
  const std::int64_t* steps = nullptr;
};

struct MergedRanges {
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  std::vector<std::int64_t> row;  // of the input
  std::vector<std::int64_t> steps;
};

// Which names stand for one phase: learnt from all ranges of a thread, part by part.
class PhaseNames {
 public:
  void Add(const PhaseInput& input);
  bool IsName(std::int32_t key) const;

 private:
  // Range key -> phase key -> time of the phase inside.
  std::map<std::int32_t, std::map<std::int32_t, std::int64_t>> inside_ns_;
};

MergedRanges MergePhases(const PhaseInput& input, const PhaseNames& names);

}  // namespace rls
