#include "shim/gpu.h"

#include <algorithm>
#include <cstring>

#include "shim/file.h"
#include "shim/texts.h"

namespace rls {
namespace {

// How much is kept of what a process tells rarely: it can tell it without end. Of all processes
// together, but one alone cannot take the place of all others.
constexpr std::size_t kMaxStatuses = 1U << 14;
constexpr std::size_t kMaxStatusesEach = 64;
constexpr std::size_t kMaxDevices = 1U << 14;
constexpr std::size_t kMaxDevicesEach = 256;
constexpr std::size_t kMaxNamed = 1U << 16;
constexpr std::size_t kMaxNamedEach = 1U << 14;
constexpr std::size_t kMaxNames = 1U << 16;
constexpr std::size_t kMaxClockReadings = 1U << 20;
// CUPTI has some sixty kinds of records.
constexpr std::uint32_t kMaxActivityKind = 256;

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
      return AddStatus(source, As<rls_shim_gpu_status>(cell));
    case RLS_SHIM_GPU_DEVICE:
      return AddDevice(source, As<rls_shim_gpu_device>(cell));
    case RLS_SHIM_GPU_NAMED:
      return AddNamed(source, As<rls_shim_gpu_named>(cell));
    case RLS_SHIM_GPU_CLOCK:
      if (++clock_readings_ > kMaxClockReadings) return false;
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
  auto& reported = tids_[{source, tid.inner_tid}];
  if (reported.empty() || reported.back().second != tid.tid) reported.emplace_back(offset, tid.tid);
}

void ShimGpu::Finish() {
  for (auto& [source, clock] : clocks_) clock.Finish();
}

bool ShimGpu::AddStatus(std::uint32_t source, const rls_shim_gpu_status& record) {
  const auto [last, is_first] = last_status_.emplace(source, record);
  if (!is_first && SayTheSame(last->second, record)) {
    ++repeated_;
    return true;
  }
  if (statuses_.size() >= kMaxStatuses || ++statuses_of_[source] > kMaxStatusesEach) return false;
  Intern(record.subject);
  Intern(record.library);
  last->second = record;
  statuses_.push_back({source, record});
  if (record.state == RLS_SHIM_GPU_ON) recorded_[source] |= record.recorded;
  return true;
}

bool ShimGpu::AddDevice(std::uint32_t source, const rls_shim_gpu_device& record) {
  const std::string bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  if (reported_devices_.count({source, bytes}) != 0) {
    ++repeated_;
    return true;
  }
  if (devices_.size() >= kMaxDevices || ++devices_of_[source] > kMaxDevicesEach) return false;
  Intern(record.name);
  reported_devices_.emplace(source, bytes);
  devices_.push_back({source, record});
  return true;
}

// CUPTI and the program tell of one thing each on its own, and in any order: CUPTI knows no name,
// and of a stream that came before its context no device.
bool ShimGpu::AddNamed(std::uint32_t source, const rls_shim_gpu_named& record) {
  const bool is_device = record.context == kShimUnknownId;
  const NamedKey key = {source, is_device ? record.device : 0, record.context, record.is_stream,
                        record.stream};
  if (named_.count(key) == 0 && (named_.size() >= kMaxNamed || ++named_of_[source] > kMaxNamedEach))
    return false;
  Intern(record.name);
  rls_shim_gpu_named& known = named_.emplace(key, record).first->second;
  if (record.name != 0) known.name = record.name;
  if (record.device != kShimUnknownId) known.device = record.device;
  return true;
}

bool ShimGpu::AddLost(std::uint32_t source, const rls_shim_gpu_lost& record) {
  const bool is_known = record.what >= RLS_SHIM_GPU_DROPPED &&
                        record.what <= RLS_SHIM_GPU_NOT_FETCHED &&
                        record.activity < kMaxActivityKind;
  if (record.count > kMaxLost || !is_known) return false;
  auto& [count, first_ns] = lost_[{source, record.what, record.activity}];
  count = std::min(count + record.count, kMaxLost);
  if (first_ns == 0 || (record.ts_ns != 0 && record.ts_ns < first_ns)) first_ns = record.ts_ns;
  return true;
}

void ShimGpu::Intern(std::uint64_t hash) {
  if (hash == 0) return;
  // What comes when there are too many has lost its name.
  if (names_.size() >= kMaxNames && name_index_.count(hash) == 0) hash = ShimTexts::kLost;
  if (name_index_.emplace(hash, static_cast<std::int32_t>(names_.size())).second)
    names_.push_back(hash);
}

std::int32_t ShimGpu::NameIndex(std::uint64_t hash) const {
  if (hash == 0) return -1;
  auto found = name_index_.find(hash);
  if (found == name_index_.end()) found = name_index_.find(ShimTexts::kLost);
  return found == name_index_.end() ? -1 : found->second;
}

std::vector<ShimGpuReported<rls_shim_gpu_named>> ShimGpu::named() const {
  std::vector<ShimGpuReported<rls_shim_gpu_named>> reported;
  for (const auto& [key, record] : named_) reported.push_back({std::get<0>(key), record});
  return reported;
}

const ShimGpuClock& ShimGpu::clock(std::uint32_t source) const {
  static const ShimGpuClock none;
  const auto found = clocks_.find(source);
  return found == clocks_.end() ? none : found->second;
}

std::uint32_t ShimGpu::TidAt(std::uint32_t source, std::uint32_t inner,
                             std::uint64_t offset) const {
  const auto reported = tids_.find({source, inner});
  if (reported == tids_.end()) return 0;
  const auto after =
      std::upper_bound(reported->second.begin(), reported->second.end(), offset,
                       [](std::uint64_t place, const auto& entry) { return place < entry.first; });
  // Reported late, the first is still the best guess that a thread id allows.
  return (after == reported->second.begin() ? after : after - 1)->second;
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
  const auto found = recorded_.find(source);
  return found == recorded_.end() ? 0 : found->second;
}

}  // namespace rls
