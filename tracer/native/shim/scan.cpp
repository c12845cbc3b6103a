#include "shim/scan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "shim/file.h"

namespace rls {
namespace {

// Above what a block can hold: a whole ring.
constexpr std::uint32_t kMaxBlockBytes = RLS_SHIM_RING_BYTES;
constexpr std::uint32_t kNone = UINT32_MAX;
// How much is kept of what a program can tell without end.
constexpr std::size_t kMaxKeys = ShimTexts::kMaxTexts + ShimTexts::kMaxFolded;
constexpr std::size_t kMaxCategories = 1U << 16;
constexpr std::size_t kMaxSkipped = 1U << 22;
constexpr std::size_t kMaxIncarnations = 1U << 20;
// What has no name any more: there are too many.
constexpr ShimKey kUnnamed = {ShimTexts::kLost, 0, 0, 0};

}  // namespace

ShimScan::ShimScan(const std::string& path) : path_(path) {
  const ShimFile file(path);
  const std::uint64_t size = file.size();
  std::uint64_t offset = sizeof(ShimSpoolHeader);
  ShimSpoolHeader header = {};
  if (!file.Read(0, &header, sizeof(header)) || header.magic != kShimSpoolMagic ||
      header.version != RLS_SHIM_VERSION) {
    losses_.bytes_left = size;
    return;
  }
  std::vector<char> data(kMaxBlockBytes);
  ShimBlock block;
  while (file.Read(offset, &block, sizeof(block))) {
    if (block.magic != kShimBlockMagic || block.bytes > kMaxBlockBytes ||
        !file.Read(offset + sizeof(block), data.data(), block.bytes))
      break;
    offset += sizeof(block);
    ReadBlock(block, offset, data.data());
    offset += block.bytes;
  }
  losses_.bytes_left = size > offset ? size - offset : 0;
  AddUnended();
  AddStrangers();
  AddLosses();
  gpu_.Finish();
}

template <typename Payload>
bool ShimScan::IsWhole(const ShimBlock& block) {
  losses_.damaged += block.bytes == sizeof(Payload) ? 0 : 1;
  return block.bytes == sizeof(Payload);
}

void ShimScan::ReadBlock(const ShimBlock& block, std::uint64_t offset, const char* data) {
  if (block.kind == ShimBlockKind::kSource) {
    ReadSource(block, data);
    return;
  }
  if (block.kind == ShimBlockKind::kEnded) {
    SkipSources(block, data);
    return;
  }
  if (block.kind == ShimBlockKind::kRefused || block.kind == ShimBlockKind::kRefusedBefore) {
    if (!IsWhole<ShimRefused>(block)) return;
    losses_.refused = As<ShimRefused>(data);
    if (block.kind == ShimBlockKind::kRefusedBefore) refused_before_ = losses_.refused;
    return;
  }
  if (block.source >= sources_.size() || block.slot >= RLS_SHIM_SLOTS || !IsTime(block.ts_ns)) {
    ++losses_.damaged;
    return;
  }
  switch (block.kind) {
    case ShimBlockKind::kCells:
      ReadCells(block, offset, data);
      return;
    case ShimBlockKind::kCounters:
    case ShimBlockKind::kCountersBefore:
      ReadCounters(block, data);
      return;
    case ShimBlockKind::kOpen:
      ReadOpen(block, data);
      return;
    case ShimBlockKind::kTid:
      if (IsWhole<ShimTid>(block)) {
        const auto tid = As<ShimTid>(data);
        tids_[{block.source, tid.inner_tid}] = tid.tid;
        gpu_.AddTid(block.source, tid, offset);
      }
      return;
    case ShimBlockKind::kLost:
    case ShimBlockKind::kLostBefore:
      if (IsWhole<ShimLost>(block)) {
        const auto lost = As<ShimLost>(data);
        // Of a process that others had read before, the first are what was lost before us.
        const bool is_before =
            block.kind == ShimBlockKind::kLostBefore || sources_[block.source].reader > 1;
        const ShimLost first = is_before ? lost : ShimLost{};
        lost_.emplace(block.source, std::make_pair(first, lost)).first->second.second = lost;
      }
      return;
    case ShimBlockKind::kGpuRest:
      if (IsWhole<std::uint32_t>(block)) gpu_.AddRest(block.source, block.ts_ns);
      return;
    default:
      ++losses_.damaged;
  }
}

void ShimScan::SkipSources(const ShimBlock& block, const char* data) {
  if (!IsWhole<ShimEnded>(block)) return;
  const std::uint32_t count = As<ShimEnded>(data).count;
  if (count > kMaxSkipped - std::min(sources_.size(), kMaxSkipped)) {
    ++losses_.damaged;
    return;
  }
  sources_.resize(sources_.size() + count);
}

void ShimScan::ReadSource(const ShimBlock& block, const char* data) {
  if (block.bytes != sizeof(ShimSource) || block.source != sources_.size()) {
    ++losses_.damaged;
    return;
  }
  sources_.push_back(As<ShimSource>(data));
}

void ShimScan::ReadCounters(const ShimBlock& block, const char* data) {
  if (block.bytes != sizeof(ShimCounters)) {
    ++losses_.damaged;
    return;
  }
  Slot& slot = slots_[{block.source, block.slot}];
  slot.last = {};
  std::memcpy(&slot.last, data, block.bytes);
  // A slot that came into use while we read began with none; of one that was there, and of a
  // process that others had read before, the first are what was lost before us.
  const bool is_before = block.kind == ShimBlockKind::kCountersBefore;
  const bool was_there = sources_[block.source].reader > 1 && slot.incarnation == kNone;
  if (!slot.has_first && (is_before || was_there)) slot.first = slot.last;
  slot.has_first = true;
  PlaceGaps(&slot);
}

// A thread may be introduced only after its ring was full for a while, or never.
void ShimScan::PlaceGaps(Slot* slot) {
  for (const rls_shim_gap& gap : {slot->last.former, slot->last.gap}) {
    const auto found = slot->incarnations.find(gap.owner);
    if (found != slot->incarnations.end())
      SetGap(found->second, gap);
    else if (gap.end_ns > 0)
      slot->strangers[gap.owner] = gap;
  }
}

// Threads of which nothing is known but that all they reported was dropped.
void ShimScan::AddStrangers() {
  for (const auto& [id, slot] : slots_) {
    for (const auto& [owner, gap] : slot.strangers) {
      if (incarnations_.size() >= kMaxIncarnations || !IsTime(gap.start_ns) || !IsTime(gap.end_ns))
        continue;
      const std::int64_t end_ns = Signed(gap.end_ns);
      incarnations_.push_back(
          {end_ns, end_ns, 0, 0, sources_[id.first].pid, OuterTid(id.first, owner)});
      incarnation_data_.push_back({});
      incarnation_data_.back().source = id.first;
      SetGap(static_cast<std::uint32_t>(incarnations_.size() - 1), gap);
    }
  }
}

void ShimScan::SetGap(std::uint32_t incarnation, const rls_shim_gap& gap) {
  rls_shim_event& reported = incarnation_data_[incarnation].gap;
  if (reported.kind == RLS_SHIM_GAP) --incarnations_[incarnation].gaps;
  reported = {};
  if (gap.end_ns == 0 || !IsTime(gap.start_ns) || !IsTime(gap.end_ns)) return;
  ++incarnations_[incarnation].gaps;
  reported.kind = RLS_SHIM_GAP;
  reported.start_ns = gap.start_ns;
  reported.end_ns = gap.end_ns;
}

void ShimScan::ReadOpen(const ShimBlock& block, const char* data) {
  const Slot& slot = slots_[{block.source, block.slot}];
  const std::uint32_t count = block.bytes / sizeof(rls_shim_open);
  if (slot.incarnation == kNone || count > RLS_SHIM_MAX_DEPTH) {
    losses_.damaged += count;
    return;
  }
  ShimIncarnationData& incarnation = incarnation_data_[slot.incarnation];
  incarnation.open_ns = Signed(block.ts_ns);
  incarnation.open.clear();
  for (std::uint32_t index = 0; index < count; ++index)
    incarnation.open.push_back(As<rls_shim_open>(data + index * sizeof(rls_shim_open)));
  incarnations_[slot.incarnation].ranges += incarnation.open.size();
  for (const rls_shim_open& open : incarnation.open) {
    rls_shim_event event = {};
    event.name = open.name;
    event.domain = open.domain;
    event.category = open.category;
    event.color = open.color;
    Intern(block.source, event);
  }
}

void ShimScan::ReadCells(const ShimBlock& block, std::uint64_t offset, const char* data) {
  std::uint32_t position = 0;
  std::uint32_t begin = 0;
  bool has_gpu = false;
  const auto flush = [&](std::uint32_t end) {
    const std::uint32_t incarnation = slots_[{block.source, block.slot}].incarnation;
    if (incarnation != kNone && end > begin)
      incarnation_data_[incarnation].extents.push_back({offset + begin, end - begin});
    begin = end;
  };
  while (position + RLS_SHIM_CELL_BYTES <= block.bytes) {
    const char* cell = data + position;
    std::uint32_t cells = 1;
    ++records_;
    if (KindOf(cell) == RLS_SHIM_STRING) {
      cells = ReadString(cell, block.bytes - position);
    } else if (KindOf(cell) == RLS_SHIM_THREAD) {
      flush(position);
      Introduce(block, cell);
    } else if (ShimGpu::IsGpu(KindOf(cell))) {
      has_gpu = true;
      if (!gpu_.Add(block.source, cell)) ++losses_.damaged;
    } else {
      ReadCell(block, cell);
    }
    position += cells * RLS_SHIM_CELL_BYTES;
  }
  flush(block.bytes);
  if (has_gpu) gpu_.AddExtent(offset, block.bytes, block.source);
  const std::uint32_t incarnation = slots_[{block.source, block.slot}].incarnation;
  if (incarnation != kNone) incarnations_[incarnation].last_ns = Signed(block.ts_ns);
}

void ShimScan::ReadCell(const ShimBlock& block, const char* cell) {
  const auto event = As<rls_shim_event>(cell);
  const std::uint32_t incarnation = slots_[{block.source, block.slot}].incarnation;
  if (event.kind == RLS_SHIM_CATEGORY) {
    ReadCategory(block.source, cell);
  } else if (incarnation == kNone || !IsTime(event.start_ns) || !IsTime(event.end_ns)) {
    ++losses_.damaged;
  } else if (IsRange(event.kind)) {
    Intern(block.source, event);
    ++incarnations_[incarnation].ranges;
  } else if (event.kind == RLS_SHIM_GAP) {
    // What the counters said of it so far is a part of it.
    slots_[{block.source, block.slot}].last.gap = {};
    SetGap(incarnation, {});
    ++incarnations_[incarnation].gaps;
  } else if (event.kind == RLS_SHIM_START) {
    ReadStart(block, event);
  } else if (event.kind == RLS_SHIM_END) {
    ReadEnd(block, event);
  } else if (event.kind == RLS_SHIM_MARK) {
    ReadMark(block, event);
  } else {
    ++losses_.damaged;
  }
}

// Returns how many cells it takes.
std::uint32_t ShimScan::ReadString(const char* cell, std::uint32_t left) {
  if (!IsSoundString(cell, left)) {
    ++losses_.damaged;
    return 1;
  }
  const auto record = As<rls_shim_string>(cell);
  const std::string_view text(cell + offsetof(rls_shim_string, text), record.length);
  texts_.Add(record.hash, text, record.cut != 0);
  return CellsOf(record.length);
}

void ShimScan::ReadCategory(std::uint32_t source, const char* cell) {
  const auto record = As<rls_shim_category>(cell);
  // The first name stays: what was counted under it must be found under it by the second pass.
  if (categories_.size() >= kMaxCategories) {
    ++losses_.damaged;
    return;
  }
  categories_.emplace(std::make_tuple(source, record.domain, record.category), record.name);
}

void ShimScan::Introduce(const ShimBlock& block, const char* cell) {
  const auto record = As<rls_shim_thread>(cell);
  const ShimSource& source = sources_[block.source];
  Slot& slot = slots_[{block.source, block.slot}];
  const std::uint32_t tid = OuterTid(block.source, record.tid);
  // What is later than its block is damaged, or of another clock; nothing is lost without it.
  const bool is_sound = IsTime(record.ts_ns) && record.ts_ns <= block.ts_ns;
  const std::int64_t ts_ns = Signed(is_sound ? record.ts_ns : block.ts_ns);
  if (slot.incarnation != kNone) incarnations_[slot.incarnation].last_ns = ts_ns;
  if (incarnations_.size() >= kMaxIncarnations) {
    ++losses_.damaged;
    slot.incarnation = kNone;
    return;
  }
  slot.incarnation = static_cast<std::uint32_t>(incarnations_.size());
  incarnations_.push_back({ts_ns, ts_ns, 0, 0, source.pid, tid});
  incarnation_data_.push_back({});
  incarnation_data_.back().source = block.source;
  slot.incarnations[record.tid] = slot.incarnation;
  slot.strangers.erase(record.tid);
  PlaceGaps(&slot);
}

// 0: nobody knows.
std::uint32_t ShimScan::OuterTid(std::uint32_t source, std::uint32_t inner_tid) const {
  if (sources_[source].pid == sources_[source].inner_pid) return inner_tid;
  const auto found = tids_.find({source, inner_tid});
  return found == tids_.end() ? 0 : found->second;
}

void ShimScan::AddLosses() {
  const auto less = [](std::uint64_t before, std::uint64_t* all) {
    *all -= std::min(before, *all);
  };
  less(refused_before_.damaged, &losses_.refused.damaged);
  less(refused_before_.limited, &losses_.refused.limited);
  less(refused_before_.no_room, &losses_.refused.no_room);
  less(refused_before_.memories, &losses_.refused.memories);
  less(refused_before_.strangers, &losses_.refused.strangers);
  const auto note = [this](std::uint64_t count, std::uint64_t first_ns) {
    if (count == 0 || first_ns == 0 || !IsTime(first_ns)) return;
    if (losses_.first_ns == 0 || Signed(first_ns) < losses_.first_ns)
      losses_.first_ns = Signed(first_ns);
  };
  // The program can write anything there: what nobody can have lost is damage.
  const auto since = [this](std::uint64_t first, std::uint64_t last) {
    if (last - first <= kMaxLost) return last - first;
    ++losses_.damaged;
    return std::uint64_t{0};
  };
  for (const auto& [id, slot] : slots_) {
    const ShimCounters& first = slot.first;
    const ShimCounters& last = slot.last;
    const std::uint64_t dropped = since(first.dropped_events, last.dropped_events);
    losses_.dropped_events += dropped;
    losses_.dropped_names += since(first.dropped_names, last.dropped_names);
    losses_.interrupted += since(first.interrupted, last.interrupted);
    losses_.unbalanced_pops += since(first.unbalanced_pops, last.unbalanced_pops);
    losses_.too_deep += since(first.too_deep, last.too_deep);
    note(dropped, last.first_loss_ns);
  }
  for (const auto& [source, lost] : lost_) {
    losses_.without_slot += since(lost.first.events, lost.second.events);
    losses_.refused_children += since(lost.first.refused_children, lost.second.refused_children);
    note(lost.second.events, lost.second.first_ns);
  }
  for (const std::uint64_t hash : texts_.cut())
    if (gpu_.NameIndex(hash) < 0) ++losses_.cut_names;
  losses_.folded_names = texts_.folded();
}

ShimKey ShimScan::KeyOf(std::uint32_t source, const rls_shim_event& event) const {
  ShimKey key = {texts_.Canonical(event.name), texts_.Canonical(event.domain), 0, event.category};
  if (event.category == 0) return key;
  const auto found = categories_.find({source, event.domain, event.category});
  if (found == categories_.end()) return key;
  key.category_name = found->second;
  key.category_number = 0;
  return key;
}

std::int32_t ShimScan::Intern(std::uint32_t source, const rls_shim_event& event) {
  ShimKey key = KeyOf(source, event);
  if (key_index_.size() >= kMaxKeys && key_index_.count(key) == 0) {
    key = kUnnamed;
    ++losses_.unnamed;
  }
  const auto [found, is_new] = key_index_.emplace(key, static_cast<std::int32_t>(keys_.size()));
  if (is_new) {
    keys_.push_back(key);
    colors_.push_back(event.color);
  }
  return found->second;
}

std::int32_t ShimScan::FindKey(std::uint32_t source, const rls_shim_event& event) const {
  auto key = key_index_.find(KeyOf(source, event));
  // Its category was named later on, or its text reported.
  if (key == key_index_.end()) key = key_index_.find({event.name, event.domain, 0, event.category});
  if (key == key_index_.end()) key = key_index_.find(kUnnamed);
  return key == key_index_.end() ? -1 : key->second;
}

}  // namespace rls
