// The overlap of everything that is known of each thread: what docs/breakdown.md defines.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "arrow_stream.h"
#include "segment_writer.h"
#include "thread_sweep_intervals.h"
#include "thread_sweep_rows.h"

namespace rls {

// The tables a sweep reads, in this order.
enum SweepTable {
  kThreadState,
  kOperation,
  kNativeCall,
  kWait,
  kCudaCall,
  kGpuActivity,
  kCpuSample,
  kTables
};

constexpr std::array<const char*, kTables> kTableNames = {
    "thread_state_coded", "operation_coded",    "native_call_coded", "wait_coded",
    "cuda_call_coded",    "gpu_activity_coded", "cpu_sample_coded"};

using SweepSources = std::array<std::unique_ptr<RowSource>, kTables>;

struct SweptThread {
  int32_t thread_id = 0;
  int32_t process_id = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool state_is_measured = false;
  // Since when the GPU activity of its process was measured; kAlways, or kNever: it was not.
  int64_t gpu_from_ns = kNever;
};

// A row of a result. Key of an overlap: path << 32 | state << 24 | layer << 16 | wait << 8 | gpu;
// of a transition: path << 32 | is_probed << 16 | from_layer << 8 | to_layer; of samples: path <<
// 32 | call_layer << 16 | layer << 8 | gpu.
struct ThreadTotal {
  int32_t thread_id;
  KeyTotal total;
};

struct SweptEnds {
  int32_t thread_id;
  ThreadEnds ends;
};

struct SweepResult {
  std::vector<ThreadTotal> overlap;
  std::vector<ThreadTotal> transitions;
  std::vector<ThreadTotal> samples;
  std::vector<SweptEnds> ends;
  std::array<RowFaults, kTables> faults;
};

// By layer: since when all of its calls were recorded. A transition is_probed where the innermost
// operation (outside any: the thread) began no earlier.
using ProbedSince = std::array<int64_t, 8>;

// Sweeps the threads, given in the order of the tables: by process, and by id within one. Rows of
// other threads are passed over. segments: gets every segment of them in that order; nullptr:
// nobody asks. Throws OrderError, ColumnError or Cancelled.
SweepResult sweep_threads(const std::vector<SweptThread>& threads, int64_t window_start_ns,
                          int64_t window_end_ns, const ProbedSince& probed_ns,
                          const SweepSources& sources, SweepProgress* progress,
                          SegmentWriter* segments);

}  // namespace rls
