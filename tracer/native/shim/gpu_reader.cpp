#include "shim/gpu_reader.h"

#include <algorithm>

#include "shim/cuda_work.h"

namespace rls {
namespace {

// The driver moves pages of unified memory when they are touched: no call asked for it.
constexpr std::uint8_t kFirstUnaskedCopy = 11;
// Between GPUs: the only kind of copy that goes to another one.
constexpr std::uint8_t kPeerCopy = 10;

void Count(std::int64_t start_ns, ShimGpuUnmatched* unmatched) {
  ++unmatched->count;
  if (unmatched->first_ns == 0 || start_ns < unmatched->first_ns) unmatched->first_ns = start_ns;
}

}  // namespace

ShimGpuReader::ShimGpuReader(const ShimScan& scan, std::int64_t start_ns)
    : scan_(scan), start_ns_(start_ns), file_(scan.path()) {
  for (std::uint32_t source = 0; source < scan.sources().size(); ++source)
    recorded_.push_back(scan.gpu().Recorded(source));
}

ShimGpuPart ShimGpuReader::Next(std::size_t count) {
  ShimGpuPart part;
  const std::vector<ShimGpu::Extent>& extents = scan_.gpu().extents();
  while (next_extent_ < extents.size() && part.size() < count)
    ReadExtent(extents[next_extent_++], &part);
  return part;
}

void ShimGpuReader::ReadExtent(const ShimGpu::Extent& extent, ShimGpuPart* part) {
  cells_.resize(extent.bytes);
  if (!file_.Read(extent.offset, cells_.data(), cells_.size())) return;
  std::size_t position = 0;
  while (position + RLS_SHIM_CELL_BYTES <= cells_.size()) {
    const char* cell = cells_.data() + position;
    position += RLS_SHIM_CELL_BYTES;
    switch (KindOf(cell)) {
      case RLS_SHIM_STRING:
        // `position` is behind its first cell already.
        position += (CellsOfString(cell, cells_.size() - position + RLS_SHIM_CELL_BYTES) - 1) *
                    RLS_SHIM_CELL_BYTES;
        break;
      case RLS_SHIM_GPU_CALL:
        AddCall(extent, As<rls_shim_gpu_call>(cell), &part->calls);
        break;
      case RLS_SHIM_GPU_ACTIVITY:
        AddActivity(extent.source, As<rls_shim_gpu_activity>(cell), &part->activities);
        break;
      case RLS_SHIM_GPU_OVERHEAD:
        AddOverhead(extent, As<rls_shim_gpu_overhead>(cell), &part->overheads);
        break;
      case RLS_SHIM_GPU_MEMORY:
        AddMemory(extent.source, As<rls_shim_gpu_memory>(cell), &part->memories);
        break;
      default:
        break;
    }
  }
}

void ShimGpuReader::AddCall(const ShimGpu::Extent& extent, const rls_shim_gpu_call& record,
                            ShimGpuCalls* calls) {
  std::pair<std::int64_t, std::int64_t> times;
  if (!Convert(extent.source, record.start_ns, record.end_ns, &times)) return;
  MatchCall(extent.source, record, times.first);
  calls->source.push_back(extent.source);
  calls->tid.push_back(Tid(extent, record.tid));
  calls->start_ns.push_back(times.first);
  calls->end_ns.push_back(times.second);
  calls->name.push_back(scan_.gpu().NameIndex(record.name));
  calls->api.push_back(static_cast<std::uint8_t>(record.api));
  calls->function.push_back(record.function);
  calls->correlation.push_back(record.correlation);
  calls->result.push_back(record.result);
}

void ShimGpuReader::AddActivity(std::uint32_t source, const rls_shim_gpu_activity& record,
                                ShimGpuActivities* activities) {
  std::pair<std::int64_t, std::int64_t> times;
  // One that makes no sense was counted by the first pass.
  if (record.work < RLS_SHIM_GPU_KERNEL || record.work > RLS_SHIM_GPU_SYNC) return;
  if (!Convert(source, record.start_ns, record.end_ns, &times)) return;
  Match(source, record, times.first);
  activities->source.push_back(source);
  activities->device.push_back(record.device);
  activities->context.push_back(record.context);
  activities->stream.push_back(record.stream);
  activities->start_ns.push_back(times.first);
  activities->end_ns.push_back(times.second);
  activities->work.push_back(record.work);
  activities->detail.push_back(record.detail);
  activities->name.push_back(scan_.gpu().NameIndex(record.name));
  activities->correlation.push_back(record.correlation);
  activities->graph.push_back(record.graph);
  activities->bytes.push_back(record.bytes);
  const bool is_peer = record.work == RLS_SHIM_GPU_MEMCPY && record.detail == kPeerCopy;
  activities->peer_device.push_back(is_peer ? record.peer_device : kShimUnknownId);
}

void ShimGpuReader::AddOverhead(const ShimGpu::Extent& extent, const rls_shim_gpu_overhead& record,
                                ShimGpuOverheads* overheads) {
  std::pair<std::int64_t, std::int64_t> times;
  if (!Convert(extent.source, record.start_ns, record.end_ns, &times)) return;
  overheads->source.push_back(extent.source);
  overheads->tid.push_back(record.tid == 0 ? 0 : Tid(extent, record.tid));
  overheads->start_ns.push_back(times.first);
  overheads->end_ns.push_back(times.second);
  overheads->what.push_back(record.what);
}

void ShimGpuReader::AddMemory(std::uint32_t source, const rls_shim_gpu_memory& record,
                              ShimGpuMemories* memories) {
  std::pair<std::int64_t, std::int64_t> times;
  if (!Convert(source, record.ts_ns, record.ts_ns, &times)) return;
  memories->source.push_back(source);
  memories->device.push_back(record.device);
  memories->context.push_back(record.context);
  memories->ts_ns.push_back(times.first);
  memories->is_release.push_back(record.is_release);
  memories->memory_kind.push_back(record.memory_kind);
  memories->bytes.push_back(record.bytes);
  memories->address.push_back(record.address);
  memories->correlation.push_back(record.correlation);
}

bool ShimGpuReader::Convert(std::uint32_t source, std::uint64_t start, std::uint64_t end,
                            std::pair<std::int64_t, std::int64_t>* times) {
  const ShimGpuClock& clock = scan_.gpu().clock(source);
  *times = {clock.Monotonic(start), clock.Monotonic(end)};
  const std::int64_t known_ns = std::max(times->first, times->second);
  const bool is_earlier = known_ns != 0 && known_ns < start_ns_;
  if (start == 0 || end == 0) {
    left_out_.untimed += is_earlier ? 0 : 1;
    return false;
  }
  if (times->first == 0 || times->second == 0) {
    ++left_out_.unconverted;
    return false;
  }
  if (ShimGpuClock::IsForeign(start) && times->first >= start_ns_) ++converted_[source];
  if (times->first <= times->second) return true;
  left_out_.backwards += is_earlier ? 0 : 1;
  return false;
}

void ShimGpuReader::Match(std::uint32_t source, const rls_shim_gpu_activity& record,
                          std::int64_t start_ns) {
  const bool is_unasked = record.work == RLS_SHIM_GPU_SYNC ||
                          (record.work == RLS_SHIM_GPU_MEMCPY && record.correlation == 0 &&
                           record.detail >= kFirstUnaskedCopy);
  if (is_unasked || start_ns < start_ns_ ||
      (record.correlation != 0 && scan_.gpu().HasCall(source, record.correlation)))
    return;
  Count(start_ns, &unmatched_[source]);
}

void ShimGpuReader::MatchCall(std::uint32_t source, const rls_shim_gpu_call& record,
                              std::int64_t start_ns) {
  if (record.correlation == 0 || record.result != 0 || start_ns < start_ns_ ||
      (WorkOf(record.name) & recorded_[source]) == 0 ||
      scan_.gpu().HasWork(source, record.correlation))
    return;
  Count(start_ns, &unmatched_calls_[source]);
}

std::uint64_t ShimGpuReader::WorkOf(std::uint64_t name) {
  const auto [found, is_new] = work_of_.emplace(name, 0);
  const std::string* text = is_new ? scan_.Text(name) : nullptr;
  if (text != nullptr) found->second = CudaWorkOf(*text);
  return found->second;
}

// As the recorder sees it; 0: not known.
std::uint32_t ShimGpuReader::Tid(const ShimGpu::Extent& extent, std::uint32_t inner) const {
  const ShimSource& source = scan_.sources()[extent.source];
  if (source.pid == source.inner_pid) return inner;
  return scan_.gpu().TidAt(extent.source, inner, extent.offset);
}

}  // namespace rls
