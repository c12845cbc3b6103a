#include "shim/gpu.h"

#include <algorithm>
#include <cstring>

#include "shim/file.h"

namespace rls {
namespace {

bool SayTheSame(rls_shim_gpu_status left, rls_shim_gpu_status right) {
  left.ts_ns = right.ts_ns = 0;
  return std::memcmp(&left, &right, sizeof(left)) == 0;
}

}  // namespace

bool ShimGpu::Add(std::uint32_t source, const char* cell) {
  switch (KindOf(cell)) {
    case RLS_SHIM_GPU_CALL: {
      const auto record = As<rls_shim_gpu_call>(cell);
      Intern(record.name);
      calls_[source].Add(record.correlation);
      return true;
    }
    case RLS_SHIM_GPU_ACTIVITY: {
      const auto record = As<rls_shim_gpu_activity>(cell);
      Intern(record.name);
      if (record.correlation != 0 && record.work != RLS_SHIM_GPU_SYNC)
        work_[source].Add(record.correlation);
      return record.work >= RLS_SHIM_GPU_KERNEL && record.work <= RLS_SHIM_GPU_SYNC;
    }
    case RLS_SHIM_GPU_OVERHEAD:
    case RLS_SHIM_GPU_MEMORY:
      return true;
    case RLS_SHIM_GPU_STATUS:
      AddStatus(source, As<rls_shim_gpu_status>(cell));
      return true;
    case RLS_SHIM_GPU_DEVICE:
      AddDevice(source, As<rls_shim_gpu_device>(cell));
      return true;
    case RLS_SHIM_GPU_NAMED:
      AddNamed(source, As<rls_shim_gpu_named>(cell));
      return true;
    case RLS_SHIM_GPU_CLOCK:
      clocks_[source].Add(As<rls_shim_gpu_clock>(cell));
      return true;
    case RLS_SHIM_GPU_LOST:
      return AddLost(source, As<rls_shim_gpu_lost>(cell));
    default:
      return false;
  }
}

void ShimGpu::AddExtent(std::uint64_t offset, std::uint32_t bytes, std::uint32_t source) {
  extents_.push_back({offset, bytes, source});
}

void ShimGpu::AddTid(std::uint32_t source, const ShimTid& tid, std::uint64_t offset) {
  auto& told = tids_[{source, tid.inner_tid}];
  if (told.empty() || told.back().second != tid.tid) told.emplace_back(offset, tid.tid);
}

void ShimGpu::Finish() {
  for (auto& [source, clock] : clocks_) clock.Finish();
}

void ShimGpu::AddStatus(std::uint32_t source, const rls_shim_gpu_status& record) {
  Intern(record.reason);
  Intern(record.library);
  const auto [last, is_first] = last_status_.emplace(source, record);
  if (!is_first && SayTheSame(last->second, record)) {
    ++repeated_;
    return;
  }
  last->second = record;
  statuses_.push_back({source, record});
}

void ShimGpu::AddDevice(std::uint32_t source, const rls_shim_gpu_device& record) {
  Intern(record.name);
  const std::string bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  if (told_devices_.emplace(source, bytes).second)
    devices_.push_back({source, record});
  else
    ++repeated_;
}

// CUPTI and the program tell of one thing each on its own, and in any order: CUPTI knows no name,
// and of a stream that came before its context no device.
void ShimGpu::AddNamed(std::uint32_t source, const rls_shim_gpu_named& record) {
  Intern(record.name);
  const bool is_device = record.context == kShimUnknownId;
  const NamedKey key = {source, is_device ? record.device : 0, record.context, record.is_stream,
                        record.stream};
  rls_shim_gpu_named& known = named_.emplace(key, record).first->second;
  if (record.name != 0) known.name = record.name;
  if (record.device != kShimUnknownId) known.device = record.device;
}

bool ShimGpu::AddLost(std::uint32_t source, const rls_shim_gpu_lost& record) {
  if (record.count > kMaxLost) return false;
  auto& [count, first_ns] = lost_[{source, record.what, record.activity}];
  count = std::min(count + record.count, kMaxLost);
  if (first_ns == 0 || (record.ts_ns != 0 && record.ts_ns < first_ns)) first_ns = record.ts_ns;
  return true;
}

void ShimGpu::Intern(std::uint64_t hash) {
  if (hash == 0) return;
  if (name_index_.emplace(hash, static_cast<std::int32_t>(names_.size())).second)
    names_.push_back(hash);
}

std::int32_t ShimGpu::NameIndex(std::uint64_t hash) const {
  const auto found = name_index_.find(hash);
  return found == name_index_.end() ? -1 : found->second;
}

std::vector<ShimGpuTold<rls_shim_gpu_named>> ShimGpu::named() const {
  std::vector<ShimGpuTold<rls_shim_gpu_named>> told;
  for (const auto& [key, record] : named_) told.push_back({std::get<0>(key), record});
  return told;
}

const ShimGpuClock& ShimGpu::clock(std::uint32_t source) const {
  static const ShimGpuClock none;
  const auto found = clocks_.find(source);
  return found == clocks_.end() ? none : found->second;
}

std::uint32_t ShimGpu::TidAt(std::uint32_t source, std::uint32_t inner,
                             std::uint64_t offset) const {
  const auto told = tids_.find({source, inner});
  if (told == tids_.end()) return 0;
  const auto after =
      std::upper_bound(told->second.begin(), told->second.end(), offset,
                       [](std::uint64_t place, const auto& entry) { return place < entry.first; });
  // Told late, the first is still the best guess that a thread id allows.
  return (after == told->second.begin() ? after : after - 1)->second;
}

bool ShimGpu::HasCall(std::uint32_t source, std::uint32_t correlation) const {
  const auto calls = calls_.find(source);
  return calls != calls_.end() && calls->second.Has(correlation);
}

bool ShimGpu::HasWork(std::uint32_t source, std::uint32_t correlation) const {
  const auto work = work_.find(source);
  return work != work_.end() && work->second.Has(correlation);
}

std::uint64_t ShimGpu::Recorded(std::uint32_t source) const {
  std::uint64_t kinds = 0;
  for (const auto& [teller, status] : statuses_)
    if (teller == source && status.state == RLS_SHIM_GPU_ON) kinds |= status.recorded;
  return kinds;
}

}  // namespace rls
