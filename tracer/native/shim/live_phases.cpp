#include "shim/live_phases.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "clock.h"

namespace rls {
namespace {

constexpr std::size_t kMaxTexts = 1U << 15;
constexpr std::size_t kMaxPhases = 256;  // of a thread
constexpr std::size_t kMaxReportedBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxReportedBytesOfAll = std::size_t{64} << 20;
constexpr std::size_t kMaxStarted = 1U << 12;
constexpr std::size_t kMaxTids = 1U << 12;
constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 32;  // as the decoder: more are no steps

template <typename Cell>
Cell As(std::string_view cells) {
  Cell cell = {};
  std::memcpy(&cell, cells.data(), std::min(cells.size(), sizeof(cell)));
  return cell;
}

std::size_t StringCells(std::string_view cells) {
  const auto string = As<rls_shim_string>(cells);
  const std::size_t all = offsetof(rls_shim_string, text) + string.length;
  const std::size_t count = (all + RLS_SHIM_CELL_BYTES - 1) / RLS_SHIM_CELL_BYTES;
  return std::min(std::max<std::size_t>(count, 1), cells.size() / RLS_SHIM_CELL_BYTES);
}

}  // namespace

void LivePhases::Add(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot,
                     std::string_view data, std::string_view more) {
  if (kind == ShimBlockKind::kSource && source == source_count_) {
    ++source_count_;
    Source& added = sources_[source];
    added.facts = data;
    added.pid = As<ShimSource>(data).pid;
    added.since_ns = MonotonicNs();
    return;
  }
  const auto known = sources_.find(source);
  if (known == sources_.end()) return;
  Source& whose = known->second;
  if (kind == ShimBlockKind::kTid && whose.tids.size() < kMaxTids) {
    const auto tid = As<ShimTid>(data);
    whose.tids[tid.inner_tid] = tid.tid;
  }
  if (kind != ShimBlockKind::kCells) return;
  if (more.empty()) {
    AddCells(&whose, slot, data);
  } else {
    // A text may lie on both sides of the end of the ring.
    AddCells(&whose, slot, std::string(data) + std::string(more));
  }
}

void LivePhases::Forget(std::uint32_t source) {
  const auto known = sources_.find(source);
  if (known == sources_.end()) return;
  reported_bytes_ -= known->second.reported_bytes;
  sources_.erase(known);
}

void LivePhases::AddCells(Source* source, std::uint32_t slot, std::string_view cells) {
  while (cells.size() >= RLS_SHIM_CELL_BYTES) {
    const std::string_view cell = cells.substr(0, RLS_SHIM_CELL_BYTES);
    std::size_t count = 1;
    switch (As<std::uint16_t>(cell)) {
      case RLS_SHIM_STRING:
        count = AddString(source, cells);
        break;
      case RLS_SHIM_THREAD:
        source->slots[slot] = Slot();
        source->slots[slot].owner = As<rls_shim_thread>(cell).tid;
        break;
      case RLS_SHIM_RANGE:
        if (has_sums_) AddRange(*source, &source->slots[slot], As<rls_shim_event>(cell));
        break;
      case RLS_SHIM_START:
        if (source->started.size() < kMaxStarted)
          source->started.emplace(As<rls_shim_event>(cell).id,
                                  std::make_pair(slot, std::string(cell)));
        break;
      case RLS_SHIM_END:
        source->started.erase(As<rls_shim_event>(cell).id);
        break;
      case RLS_SHIM_CATEGORY:
      case RLS_SHIM_GPU_DEVICE:
      case RLS_SHIM_GPU_NAMED:
        Tell(source, cell);
        break;
      case RLS_SHIM_GPU_STATUS:
        source->status = cell;
        break;
      case RLS_SHIM_GPU_CLOCK:
        source->clock = cell;
        break;
      case RLS_SHIM_GPU_ACTIVITY: {
        const auto activity = As<rls_shim_gpu_activity>(cell);
        if (activity.work == RLS_SHIM_GPU_SYNC || activity.end_ns < activity.start_ns) break;
        source->gpu_ns += activity.end_ns - activity.start_ns;
        ++source->gpu_count;
        break;
      }
      default:
        break;
    }
    cells.remove_prefix(count * RLS_SHIM_CELL_BYTES);
  }
}

std::size_t LivePhases::AddString(Source* source, std::string_view cells) {
  const std::size_t count = StringCells(cells);
  const std::string_view all = cells.substr(0, count * RLS_SHIM_CELL_BYTES);
  const auto string = As<rls_shim_string>(cells);
  const std::size_t begin = offsetof(rls_shim_string, text);
  const std::size_t length = std::min<std::size_t>(string.length, all.size() - begin);
  if (source->texts.size() < kMaxTexts && source->texts.count(string.hash) == 0 &&
      Tell(source, all))
    source->texts.emplace(string.hash, all.substr(begin, length));
  return count;
}

// False where there is no room for more.
bool LivePhases::Tell(Source* source, std::string_view cells) {
  if (source->reported_bytes + cells.size() > kMaxReportedBytes ||
      reported_bytes_ + cells.size() > kMaxReportedBytesOfAll)
    return false;
  source->reported_bytes += cells.size();
  reported_bytes_ += cells.size();
  source->reported.emplace_back(cells);
  return true;
}

// What finds no place counts as of no name.
LivePhase* LivePhases::PhaseOf(Slot* slot, const Name& name) {
  const bool has_place = slot->phases.count(name) != 0 || slot->phases.size() < kMaxPhases;
  return &slot->phases[has_place ? name : Name()];
}

void LivePhases::AddRange(const Source& source, Slot* slot, const rls_shim_event& event) {
  const std::uint64_t start_ns = event.start_ns == 0 ? source.since_ns : event.start_ns;
  if (event.end_ns < start_ns || event.depth > RLS_SHIM_MAX_DEPTH) return;
  if (event.end_ns > MonotonicNs()) return;
  const std::uint64_t total_ns = event.end_ns - start_ns;
  const std::size_t depth = event.depth;
  const Name name = {event.domain, event.name};
  LivePhase& phase = *PhaseOf(slot, name);
  phase.total_ns += total_ns;
  phase.self_ns += total_ns - std::min(total_ns, slot->inner_ns[depth + 1]);
  ++phase.count;
  phase.last_start_ns = start_ns;
  if (phase.runs == 0 || slot->last[depth] != name) {
    ++phase.runs;
    phase.run_start_ns = start_ns;
  }
  if (event.payload_type == RLS_SHIM_UNSIGNED && event.payload < kMaxSteps)
    phase.steps += event.payload;
  slot->last[depth] = name;
  slot->inner_ns[depth + 1] = 0;
  slot->inner_ns[depth] = depth == 0 ? 0 : slot->inner_ns[depth] + total_ns;
}

void LivePhases::AddOpen(const Source& source, std::uint64_t now_ns, const rls_shim_open* open,
                         std::uint32_t depth, Slot* slot) const {
  for (std::uint32_t level = 0; level < depth; ++level) {
    const auto since = [&](std::uint32_t at) {
      const std::uint64_t start_ns = open[at].start_ns == 0 ? source.since_ns : open[at].start_ns;
      return now_ns - std::min(now_ns, start_ns);
    };
    const Name name = {open[level].domain, open[level].name};
    const auto found = slot->phases.find(name);
    LivePhase& phase = found != slot->phases.end() || slot->phases.size() < kMaxPhases
                           ? slot->phases[name]
                           : slot->phases[Name()];
    const std::uint64_t inner_ns =
        slot->inner_ns[level + 1] + (level + 1 < depth ? since(level + 1) : 0);
    phase.total_ns += since(level);
    phase.self_ns += since(level) - std::min(since(level), inner_ns);
  }
}

std::vector<LivePhaseRow> LivePhases::Phases(std::uint64_t now_ns, const OpenOf& open) const {
  std::vector<LivePhaseRow> rows;
  for (const auto& [number, source] : sources_) {
    for (const auto& [at, reported] : source.slots) {
      Slot slot = reported;
      rls_shim_open entries[RLS_SHIM_MAX_DEPTH];
      AddOpen(source, now_ns, entries, open(number, at, entries), &slot);
      const auto tid = source.tids.find(slot.owner);
      for (const auto& [name, sums] : slot.phases) {
        const auto text = source.texts.find(name.second);
        const auto domain = source.texts.find(name.first);
        rows.push_back({source.pid, tid == source.tids.end() ? slot.owner : tid->second,
                        text == source.texts.end() ? "" : text->second,
                        domain != source.texts.end() && domain->second == RLS_AUTO_DOMAIN, sums});
      }
    }
  }
  return rows;
}

std::vector<LiveGpuRow> LivePhases::Gpu() const {
  std::vector<LiveGpuRow> rows;
  for (const auto& [number, source] : sources_)
    if (source.gpu_count != 0) rows.push_back({source.pid, source.gpu_ns, source.gpu_count});
  return rows;
}

void LivePhases::Keyframe(const Take& take) const {
  // Sources are counted.
  std::uint32_t next = 0;
  const auto skip = [&](std::uint32_t until) {
    const ShimEnded ended = {until - next, 0};
    if (ended.count != 0)
      take(ShimBlockKind::kEnded, 0, 0,
           std::string(reinterpret_cast<const char*>(&ended), sizeof(ended)));
  };
  for (const auto& [number, source] : sources_) {
    skip(number);
    next = number + 1;
    take(ShimBlockKind::kSource, number, 0, source.facts);
    for (const auto& [inner_tid, tid] : source.tids) {
      const ShimTid reported = {inner_tid, tid};
      take(ShimBlockKind::kTid, number, 0,
           std::string(reinterpret_cast<const char*>(&reported), sizeof(reported)));
    }
    std::string cells;
    for (const std::string& reported : source.reported) cells += reported;
    cells += source.status;
    cells += source.clock;
    if (!cells.empty()) take(ShimBlockKind::kCells, number, 0, cells);
    for (const auto& [slot, reported] : source.slots) {
      rls_shim_thread owner = {};
      owner.kind = RLS_SHIM_THREAD;
      owner.tid = reported.owner;
      owner.ts_ns = MonotonicNs();
      if (reported.owner != 0)
        take(ShimBlockKind::kCells, number, slot,
             std::string(reinterpret_cast<const char*>(&owner), sizeof(owner)));
    }
    for (const auto& [id, reported] : source.started)
      take(ShimBlockKind::kCells, number, reported.first, reported.second);
  }
  skip(source_count_);
}

}  // namespace rls
