#include "shim/ranges.h"

#include <utility>

namespace rls {

ShimRangeReader::ShimRangeReader(const ShimScan& scan, std::vector<std::size_t> incarnations)
    : scan_(scan), incarnations_(std::move(incarnations)), file_(scan.path()) {}

ShimRanges ShimRangeReader::Next(std::size_t count) {
  ShimRanges ranges;
  while (incarnation_ < incarnations_.size()) {
    if (position_ >= cells_.size() && !OpenExtent()) {
      AddOpen(&ranges);
      if (data().gap.kind == RLS_SHIM_GAP) AddGap(data().gap, &ranges);
      ++incarnation_;
      next_extent_ = 0;
      last_start_ns_ = 0;
    } else if (ReadExtent(count, &ranges)) {
      return ranges;
    }
  }
  return ranges;
}

// False where there is none left.
bool ShimRangeReader::OpenExtent() {
  if (next_extent_ == data().extents.size()) return false;
  const ShimIncarnationData::Extent& extent = data().extents[next_extent_++];
  position_ = 0;
  cells_.resize(extent.bytes);
  if (!file_.Read(extent.offset, cells_.data(), cells_.size())) cells_.clear();
  return true;
}

// True where the part may end.
bool ShimRangeReader::ReadExtent(std::size_t count, ShimRanges* ranges) {
  while (position_ + RLS_SHIM_CELL_BYTES <= cells_.size()) {
    const char* cell = cells_.data() + position_;
    if (KindOf(cell) == RLS_SHIM_STRING) {
      position_ += CellsOfString(cell, cells_.size() - position_) * RLS_SHIM_CELL_BYTES;
      continue;
    }
    position_ += RLS_SHIM_CELL_BYTES;
    const auto event = As<rls_shim_event>(cell);
    if (!IsTime(event.start_ns) || !IsTime(event.end_ns)) continue;
    if (event.kind == RLS_SHIM_GAP) AddGap(event, ranges);
    if (!IsRange(event.kind)) continue;
    Add(event, ranges);
    last_start_ns_ = event.start_ns;
    if (ranges->size() >= count && (event.flags & RLS_SHIM_LAST) != 0) return true;
  }
  position_ = cells_.size();
  return false;
}

void ShimRangeReader::Add(const rls_shim_event& event, ShimRanges* ranges) {
  const std::int32_t key = scan_.FindKey(data().source, event);
  if (key < 0) return;
  ranges->start_ns.push_back(Signed(event.start_ns));
  ranges->end_ns.push_back(Signed(event.end_ns));
  ranges->key.push_back(key);
  ranges->payload.push_back(event.payload);
  ranges->payload_type.push_back(event.payload_type);
  ranges->is_open.push_back(event.kind == RLS_SHIM_OPEN);
}

void ShimRangeReader::AddGap(const rls_shim_event& event, ShimRanges* ranges) {
  if (event.end_ns < event.start_ns) return;
  ranges->gap_start_ns.push_back(Signed(event.start_ns));
  ranges->gap_end_ns.push_back(Signed(event.end_ns));
}

// What was on the stack when the recording of the process ended.
void ShimRangeReader::AddOpen(ShimRanges* ranges) {
  for (const rls_shim_open& open : data().open) {
    // The process was killed between the record of the end and the stack.
    if (open.start_ns == last_start_ns_ && open.start_ns != 0) continue;
    if (!IsTime(open.start_ns)) continue;
    rls_shim_event event = {};
    event.kind = RLS_SHIM_OPEN;
    event.start_ns = open.start_ns;
    event.end_ns = static_cast<std::uint64_t>(data().open_ns);
    event.name = open.name;
    event.domain = open.domain;
    event.category = open.category;
    event.payload = open.payload;
    event.payload_type = open.payload_type;
    Add(event, ranges);
  }
}

}  // namespace rls
