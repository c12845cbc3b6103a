// First pass over shim.bin: start/end ranges, whose ends may come first, and marks.
#include "shim/file.h"
#include "shim/scan.h"

namespace rls {
namespace {

// More than a program has under way at once, and than anybody looks at.
constexpr std::size_t kMaxUnderWay = 1U << 18;
constexpr std::size_t kMaxKept = 1U << 20;

}  // namespace

void ShimScan::ReadStart(const ShimBlock& block, const rls_shim_event& event) {
  const ShimAsync range = {Signed(event.start_ns), 0, sources_[block.source].pid,
                           Intern(block.source, event)};
  const Started started = {range, slots_[{block.source, block.slot}].incarnation};
  if (started_.size() >= kMaxUnderWay) {
    ++losses_.too_many;
  } else if (!started_.emplace(std::make_pair(block.source, event.id), started).second) {
    ++losses_.damaged;  // ids are used once
  }
}

void ShimScan::ReadEnd(const ShimBlock& block, const rls_shim_event& event) {
  const auto found = started_.find({block.source, event.id});
  // The two may stand in the rings of two threads, of which the second was read first.
  if (found == started_.end()) {
    const auto end =
        std::make_pair(Signed(event.end_ns), slots_[{block.source, block.slot}].incarnation);
    if (ended_early_.size() >= kMaxUnderWay) {
      ++losses_.unmatched_ends;
    } else if (!ended_early_.emplace(std::make_pair(block.source, event.id), end).second) {
      ++losses_.damaged;
    }
    return;
  }
  AddAsync(found->second, Signed(event.end_ns), slots_[{block.source, block.slot}].incarnation);
  started_.erase(found);
}

void ShimScan::AddAsync(const Started& started, std::int64_t end_ns, std::uint32_t incarnation) {
  if (end_ns != 0 && end_ns < started.range.start_ns) {
    ++losses_.damaged;
    return;
  }
  if (async_.size() >= kMaxKept) {
    ++losses_.too_many;
    return;
  }
  async_.push_back(started.range);
  async_.back().end_ns = end_ns;
  if (incarnation != started.incarnation) ++losses_.cross_thread_ends;
}

// What remains at the end of the file.
void ShimScan::AddUnended() {
  for (const auto& [id, started] : started_) {
    const auto end = ended_early_.find(id);
    if (end == ended_early_.end()) {
      AddAsync(started, 0, started.incarnation);
      continue;
    }
    AddAsync(started, end->second.first, end->second.second);
    ended_early_.erase(end);
  }
  losses_.unmatched_ends += ended_early_.size();
}

void ShimScan::ReadMark(const ShimBlock& block, const rls_shim_event& event) {
  if (marks_.size() >= kMaxKept) {
    ++losses_.too_many;
    return;
  }
  marks_.push_back({Signed(event.start_ns), slots_[{block.source, block.slot}].incarnation,
                    Intern(block.source, event)});
}

}  // namespace rls
