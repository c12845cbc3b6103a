// First pass over the GPU records of shim.bin: what is reported once, which blocks hold the rest,
// and which calls there were. Calls and activities themselves are read by a second pass, part by
// part, so that memory does not grow with the recording: see shim/gpu_reader.h.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/gpu_clock.h"
#include "shim/gpu_ids.h"
#include "shim/spool.h"

namespace rls {

// In place of a number that the shim does not know.
constexpr std::uint32_t kShimUnknownId = UINT32_MAX;

// What the shim tells rarely, and of which process it is.
template <typename Record>
struct ShimGpuReported {
  std::uint32_t source;
  Record record;
};

class ShimGpu {
 public:
  struct Extent {
    std::uint64_t offset;  // in the file
    std::uint32_t bytes;
    std::uint32_t source;
  };

  static bool IsGpu(std::uint16_t kind) {
    return kind >= RLS_SHIM_GPU_CALL && kind <= RLS_SHIM_GPU_LOST;
  }

  // One cell of a GPU kind. False: it makes no sense.
  bool Add(std::uint32_t source, const char* cell);
  // A block that holds some.
  void AddExtent(std::uint64_t offset, std::uint32_t bytes, std::uint32_t source);
  // From this place of the file on, a thread of a process has this id as the recorder sees it.
  void AddTid(std::uint32_t source, const ShimTid& tid, std::uint64_t offset);
  // A process that ended, or was left, before all was fetched.
  void AddRest(std::uint32_t source, std::uint64_t ts_ns) {
    (void)AddLost(source, {RLS_SHIM_GPU_LOST, RLS_SHIM_GPU_NOT_FETCHED, 0, 1, ts_ns, {}});
  }
  // After the last.
  void Finish();

  const std::vector<Extent>& extents() const { return extents_; }
  // Hashes of the texts that records name, each once, in the order they came.
  const std::vector<std::uint64_t>& names() const { return names_; }
  // -1: none.
  std::int32_t NameIndex(std::uint64_t hash) const;
  // The first of several that say the same is kept.
  const std::vector<ShimGpuReported<rls_shim_gpu_status>>& statuses() const { return statuses_; }
  const std::vector<ShimGpuReported<rls_shim_gpu_device>>& devices() const { return devices_; }
  // GPUs, contexts and streams: the last name of each.
  std::vector<ShimGpuReported<rls_shim_gpu_named>> named() const;
  // By source, what, and kind of CUPTI's: how many, and since when (ns, raw; 0: not known).
  using LostKey = std::tuple<std::uint32_t, std::uint16_t, std::uint32_t>;
  const std::map<LostKey, std::pair<std::uint64_t, std::uint64_t>>& lost() const { return lost_; }
  // Statuses and devices that were reported once more.
  std::uint64_t repeated() const { return repeated_; }
  const ShimGpuClock& clock(std::uint32_t source) const;
  // The id that a thread had for the recorder where a record lies in the file; 0: not known.
  std::uint32_t TidAt(std::uint32_t source, std::uint32_t inner, std::uint64_t offset) const;
  bool HasCall(std::uint32_t source, std::uint32_t correlation) const;
  bool HasCalls(std::uint32_t source) const { return calls_.count(source) != 0; }
  // Whether a call made a GPU work: waiting for it is no work.
  bool HasWork(std::uint32_t source, std::uint32_t correlation) const;
  // CUPTI's kinds that were recorded of a process at any time, as bits.
  std::uint64_t Recorded(std::uint32_t source) const;

 private:
  bool AddStatus(std::uint32_t source, const rls_shim_gpu_status& record);
  bool AddDevice(std::uint32_t source, const rls_shim_gpu_device& record);
  bool AddNamed(std::uint32_t source, const rls_shim_gpu_named& record);
  bool AddLost(std::uint32_t source, const rls_shim_gpu_lost& record);
  void Intern(std::uint64_t hash);

  std::vector<Extent> extents_;
  std::vector<std::uint64_t> names_;
  std::unordered_map<std::uint64_t, std::int32_t> name_index_;
  std::vector<ShimGpuReported<rls_shim_gpu_status>> statuses_;
  std::map<std::uint32_t, rls_shim_gpu_status> last_status_;  // by source
  std::vector<ShimGpuReported<rls_shim_gpu_device>> devices_;
  std::set<std::pair<std::uint32_t, std::string>> reported_devices_;
  // How many were reported, by source.
  std::map<std::uint32_t, std::size_t> statuses_of_, devices_of_, named_of_;
  // By source, device of a GPU, context, is_stream, stream.
  using NamedKey =
      std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint16_t, std::uint32_t>;
  std::map<NamedKey, rls_shim_gpu_named> named_;
  std::map<LostKey, std::pair<std::uint64_t, std::uint64_t>> lost_;
  std::uint64_t repeated_ = 0;
  std::map<std::uint32_t, std::uint64_t> recorded_;  // by source: see Recorded
  std::size_t clock_readings_ = 0;
  std::map<std::uint32_t, ShimGpuClock> clocks_;  // by source
  // By source and inner tid: place in the file, tid.
  std::map<std::pair<std::uint32_t, std::uint32_t>,
           std::vector<std::pair<std::uint64_t, std::uint32_t>>>
      tids_;
  std::map<std::uint32_t, ShimGpuIds> calls_;  // correlation ids by source
  std::map<std::uint32_t, ShimGpuIds> work_;   // of activities, alike
};

}  // namespace rls
