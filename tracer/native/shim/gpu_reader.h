// Second pass over the GPU records of shim.bin, part by part: calls, activities, what CUPTI took
// for itself, and memory, on the clock of the trace.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/file.h"
#include "shim/scan.h"

namespace rls {

// Columns of equal length. source counts the processes that were read; name is an index into the
// names of ShimGpu, -1: none.
struct ShimGpuCalls {
  std::vector<std::uint32_t> source, tid, correlation, function, result;
  std::vector<std::int64_t> start_ns, end_ns;
  std::vector<std::int32_t> name;
  std::vector<std::uint8_t> api;
};

struct ShimGpuActivities {
  std::vector<std::uint32_t> source, device, context, stream, correlation, graph, peer_device;
  std::vector<std::int64_t> start_ns, end_ns;
  std::vector<std::int32_t> name;
  std::vector<std::uint8_t> work, detail;
  std::vector<std::uint64_t> bytes;
};

struct ShimGpuOverheads {
  std::vector<std::uint32_t> source, tid;  // tid 0: none
  std::vector<std::int64_t> start_ns, end_ns;
  std::vector<std::uint16_t> what;
};

struct ShimGpuMemories {
  std::vector<std::uint32_t> source, device, context, correlation;
  std::vector<std::int64_t> ts_ns;
  std::vector<std::uint8_t> is_release, memory_kind;
  std::vector<std::uint64_t> bytes, address;
};

struct ShimGpuPart {
  ShimGpuCalls calls;
  ShimGpuActivities activities;
  ShimGpuOverheads overheads;
  ShimGpuMemories memories;

  std::size_t size() const {
    return calls.source.size() + activities.source.size() + overheads.source.size() +
           memories.source.size();
  }
};

// How many records are in no part, and why.
struct ShimGpuLeftOut {
  std::uint64_t untimed = 0;      // CUPTI gave no start or no end
  std::uint64_t backwards = 0;    // they end before they start
  std::uint64_t unconverted = 0;  // on a clock that nobody compared with ours
};

struct ShimGpuUnmatched {
  std::uint64_t count = 0;
  std::int64_t first_ns = 0;
};

class ShimGpuReader {
 public:
  // The scan has to outlive it. What began before start_ns is no loss of this recording: it is
  // among the parts, but nowhere in the counts. Throws std::system_error.
  ShimGpuReader(const ShimScan& scan, std::int64_t start_ns);

  // At least `count` records; fewer at the end, then none.
  ShimGpuPart Next(std::size_t count);

  // Of what was read so far.
  const ShimGpuLeftOut& left_out() const { return left_out_; }
  // By source: activities of a GPU whose call is not in the file.
  const std::map<std::uint32_t, ShimGpuUnmatched>& unmatched() const { return unmatched_; }
  // By source: calls that asked a GPU for work of a kind that was recorded, and succeeded, and no
  // such work is in the file. Those that a graph captured are among them: nothing tells them apart.
  const std::map<std::uint32_t, ShimGpuUnmatched>& unmatched_calls() const {
    return unmatched_calls_;
  }
  // By source: how many stamps were of another clock.
  const std::map<std::uint32_t, std::uint64_t>& converted() const { return converted_; }

 private:
  void ReadExtent(const ShimGpu::Extent& extent, ShimGpuPart* part);
  void AddCall(const ShimGpu::Extent& extent, const rls_shim_gpu_call& record, ShimGpuCalls* calls);
  void AddActivity(std::uint32_t source, const rls_shim_gpu_activity& record,
                   ShimGpuActivities* activities);
  void AddOverhead(const ShimGpu::Extent& extent, const rls_shim_gpu_overhead& record,
                   ShimGpuOverheads* overheads);
  void AddMemory(std::uint32_t source, const rls_shim_gpu_memory& record,
                 ShimGpuMemories* memories);
  // The times as CLOCK_MONOTONIC; false: they are none, and it was counted why.
  bool Convert(std::uint32_t source, std::uint64_t start, std::uint64_t end,
               std::pair<std::int64_t, std::int64_t>* times);
  void Match(std::uint32_t source, const rls_shim_gpu_activity& record, std::int64_t start_ns);
  void MatchCall(std::uint32_t source, const rls_shim_gpu_call& record, std::int64_t start_ns);
  // CUPTI's kinds of the work that calls of this name ask for, as bits.
  std::uint64_t WorkOf(std::uint64_t name);
  std::uint32_t Tid(const ShimGpu::Extent& extent, std::uint32_t inner) const;

  const ShimScan& scan_;
  std::int64_t start_ns_;
  ShimFile file_;
  std::vector<char> cells_;
  std::size_t next_extent_ = 0;
  ShimGpuLeftOut left_out_;
  std::map<std::uint32_t, ShimGpuUnmatched> unmatched_;
  std::map<std::uint32_t, ShimGpuUnmatched> unmatched_calls_;
  std::unordered_map<std::uint64_t, std::uint64_t> work_of_;  // by hash of the name
  std::vector<std::uint64_t> recorded_;                       // by source
  std::map<std::uint32_t, std::uint64_t> converted_;
};

}  // namespace rls
