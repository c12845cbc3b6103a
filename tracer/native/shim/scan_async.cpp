// First pass over shim.bin: start/end ranges, whose ends may come first, and marks.
#include <algorithm>

#include "shim/file.h"
#include "shim/scan.h"

namespace rls {

void ShimScan::ReadStart(const ShimBlock& block, const rls_shim_event& event) {
  const ShimAsync range = {Signed(event.start_ns), 0, sources_[block.source].pid,
                           Intern(block.source, event)};
  started_[{block.source, event.id}] = {range, slots_[{block.source, block.slot}].tenancy};
}

void ShimScan::ReadEnd(const ShimBlock& block, const rls_shim_event& event) {
  const auto found = started_.find({block.source, event.id});
  // The two may stand in the rings of two threads, of which the second was read first.
  if (found == started_.end()) {
    ended_early_[{block.source, event.id}] = {Signed(event.end_ns),
                                              slots_[{block.source, block.slot}].tenancy};
    return;
  }
  AddAsync(found->second, Signed(event.end_ns), slots_[{block.source, block.slot}].tenancy);
  started_.erase(found);
}

void ShimScan::AddAsync(const Started& started, std::int64_t end_ns, std::uint32_t tenancy) {
  async_.push_back(started.range);
  async_.back().end_ns = std::max(end_ns, started.range.start_ns);
  if (tenancy != started.tenancy) ++losses_.cross_thread_ends;
}

// What remains at the end of the file.
void ShimScan::AddUnended() {
  for (const auto& [id, started] : started_) {
    const auto end = ended_early_.find(id);
    if (end == ended_early_.end()) {
      async_.push_back(started.range);
      continue;
    }
    AddAsync(started, end->second.first, end->second.second);
    ended_early_.erase(end);
  }
  losses_.unmatched_ends = ended_early_.size();
}

void ShimScan::ReadMark(const ShimBlock& block, const rls_shim_event& event) {
  marks_.push_back({Signed(event.start_ns), slots_[{block.source, block.slot}].tenancy,
                    Intern(block.source, event)});
}

}  // namespace rls
