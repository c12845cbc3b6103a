#include "shim/phase_merge.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace rls {
namespace {

// Of the time that phases cover inside: what the rest may be where a phase begins or ends a little
// beside the range that names it.
constexpr double kSamePhase = 0.95;

// What is looked at per instant: a thread has one phase at a time, and 64 ranges. What is open
// beyond that is none of a program's: such phases are kept as they are, such ranges name none.
constexpr std::size_t kMaxOpenRanges = 128;
constexpr std::size_t kMaxOpenPhases = 4;

constexpr std::int64_t kNoSteps = 0;
constexpr std::int64_t kUnknownSteps = -1;
constexpr std::size_t kNoRow = SIZE_MAX;

// At one instant what ends comes before what begins, and a range before the phase inside it.
enum class Edge : std::uint8_t { kRangeEnd = 0, kPhaseEnd = 1, kRangeStart = 2, kPhaseStart = 3 };

struct Event {
  std::int64_t ts_ns;
  Edge edge;
  std::size_t row;
};

std::vector<Event> EventsOf(const PhaseInput& input) {
  std::vector<Event> events;
  events.reserve(2 * input.count);
  for (std::size_t row = 0; row < input.count; ++row) {
    if (input.start_ns[row] >= input.end_ns[row]) continue;
    const bool is_auto = input.is_auto[row] != 0;
    events.push_back({input.start_ns[row], is_auto ? Edge::kPhaseStart : Edge::kRangeStart, row});
    events.push_back({input.end_ns[row], is_auto ? Edge::kPhaseEnd : Edge::kRangeEnd, row});
  }
  std::sort(events.begin(), events.end(), [](const Event& left, const Event& right) {
    return std::tie(left.ts_ns, left.edge, left.row) < std::tie(right.ts_ns, right.edge, right.row);
  });
  return events;
}

void AddRange(std::vector<std::size_t>* rows, std::size_t row) {
  if (rows->size() < kMaxOpenRanges) rows->push_back(row);
}

void Remove(std::vector<std::size_t>* rows, std::size_t row) {
  rows->erase(std::remove(rows->begin(), rows->end(), row), rows->end());
}

class Merger {
 public:
  Merger(const PhaseInput& input, const PhaseNames& names)
      : input_(input), names_(names), events_(EventsOf(input)) {}

  MergedRanges Merge() {
    for (std::size_t row = 0; row < input_.count; ++row)
      if (input_.is_auto[row] == 0) KeepRange(row);
    CutPhases();
    return std::move(merged_);
  }

 private:
  std::int64_t StepsOf(std::size_t row) const {
    return input_.steps != nullptr ? input_.steps[row] : kUnknownSteps;
  }

  void KeepRange(std::size_t row) {
    place_[row] = merged_.row.size();
    Keep(input_.start_ns[row], input_.end_ns[row], row, StepsOf(row));
  }

  void Keep(std::int64_t start_ns, std::int64_t end_ns, std::size_t row, std::int64_t steps) {
    merged_.start_ns.push_back(start_ns);
    merged_.end_ns.push_back(end_ns);
    merged_.row.push_back(static_cast<std::int64_t>(row));
    merged_.steps.push_back(steps);
  }

  // A part of a phase, with the ranges that were open when it began.
  struct Part {
    std::size_t row;
    std::int64_t start_ns;
    std::vector<std::size_t> around;
  };

  // The innermost range that stands for a part which ends there; kNoRow: none.
  std::size_t NameOf(const Part& part, std::int64_t end_ns) const {
    const auto found =
        std::find_if(part.around.rbegin(), part.around.rend(), [&](std::size_t range) {
          return input_.end_ns[range] >= end_ns && names_.IsName(input_.key[range]);
        });
    return found != part.around.rend() ? *found : kNoRow;
  }

  void Close(Part* part, std::int64_t end_ns) {
    if (end_ns <= part->start_ns) return;
    const std::int64_t all = StepsOf(part->row);
    const std::int64_t steps = end_ns == input_.end_ns[part->row] ? all : std::min(all, kNoSteps);
    const std::size_t name = NameOf(*part, end_ns);
    if (name == kNoRow)
      Keep(part->start_ns, end_ns, part->row, steps);
    else
      Credit(name, steps);
  }

  void Credit(std::size_t range, std::int64_t steps) {
    if (steps < 0) return;
    std::int64_t& total = merged_.steps[place_.at(range)];
    total = std::max(total, kNoSteps) + steps;
  }

  // Whether the range and the phase cross, so that neither lies in the other.
  bool Crosses(std::size_t range, std::size_t phase) const {
    const bool begins_before = input_.start_ns[range] < input_.start_ns[phase];
    const bool ends_after = input_.end_ns[range] > input_.end_ns[phase];
    return begins_before != ends_after;
  }

  void CutPhases() {
    std::vector<std::size_t> ranges;
    std::vector<Part> parts;  // of the phases that are open: one, unless the input is odd
    for (const Event& event : events_) {
      if (event.edge == Edge::kRangeStart) AddRange(&ranges, event.row);
      if (event.edge == Edge::kRangeEnd) Remove(&ranges, event.row);
      if (event.edge == Edge::kPhaseStart) StartPhase(event, ranges, &parts);
      if (event.edge == Edge::kPhaseEnd) EndPhase(event, &parts);
      if (event.edge != Edge::kRangeStart && event.edge != Edge::kRangeEnd) continue;
      for (Part& part : parts) {
        // One that begins with the part may be around all of it.
        if (part.start_ns == event.ts_ns) part.around = ranges;
        if (!Crosses(event.row, part.row)) continue;
        Close(&part, event.ts_ns);
        part.start_ns = event.ts_ns;
        part.around = ranges;
      }
    }
  }

  void StartPhase(const Event& event, const std::vector<std::size_t>& ranges,
                  std::vector<Part>* parts) {
    if (parts->size() < kMaxOpenPhases)
      parts->push_back({event.row, event.ts_ns, ranges});
    else
      Keep(input_.start_ns[event.row], input_.end_ns[event.row], event.row, StepsOf(event.row));
  }

  void EndPhase(const Event& event, std::vector<Part>* parts) {
    const auto found = std::find_if(parts->begin(), parts->end(),
                                    [&](const Part& part) { return part.row == event.row; });
    if (found == parts->end()) return;
    Close(&*found, event.ts_ns);
    parts->erase(found);
  }

  const PhaseInput& input_;
  const PhaseNames& names_;
  std::vector<Event> events_;
  MergedRanges merged_;
  std::map<std::size_t, std::size_t> place_;  // of a range of the program in merged_
};

}  // namespace

void PhaseNames::Add(const PhaseInput& input) {
  std::vector<std::size_t> ranges;
  std::vector<std::size_t> phases;
  std::int64_t last_ns = 0;
  for (const Event& event : EventsOf(input)) {
    if (!phases.empty())
      for (const std::size_t range : ranges)
        inside_ns_[input.key[range]][input.key[phases.back()]] += event.ts_ns - last_ns;
    last_ns = event.ts_ns;
    const bool is_range = event.edge == Edge::kRangeStart || event.edge == Edge::kRangeEnd;
    std::vector<std::size_t>* open = is_range ? &ranges : &phases;
    if (event.edge == Edge::kRangeStart || event.edge == Edge::kPhaseStart)
      AddRange(open, event.row);
    else
      Remove(open, event.row);
  }
}

bool PhaseNames::IsName(std::int32_t key) const {
  const auto found = inside_ns_.find(key);
  if (found == inside_ns_.end()) return false;
  std::int64_t total_ns = 0;
  std::int64_t most_ns = 0;
  for (const auto& [phase, time_ns] : found->second) {
    total_ns += time_ns;
    most_ns = std::max(most_ns, time_ns);
  }
  return total_ns > 0 && static_cast<double>(most_ns) >= kSamePhase * static_cast<double>(total_ns);
}

MergedRanges MergePhases(const PhaseInput& input, const PhaseNames& names) {
  return Merger(input, names).Merge();
}

}  // namespace rls
