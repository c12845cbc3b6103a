// Walks back from the end of each iteration to its start, along what held it up:
// docs/critical_path.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace rls {

// Rows that are not as the schema promises: not in order, or reversed.
struct PathOrderError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What happened at an instant of the path; the view critical_path has the words.
enum class Cause : uint8_t {
  kUnknown,
  kRunning,
  kCpuTaken,         // runnable, while `by` ran on the CPU that the thread then got
  kCpuWait,          // runnable, while no traced thread ran there
  kTimer,            // slept until a timer
  kInterrupt,        // slept until a timer or a device: which of them is not known
  kNetwork,          // slept until something came through the network stack
  kDisk,             // waited for a disk or a device
  kBlocked,          // uninterruptible, for something else: memory, a page
  kOutside,          // slept until a thread outside the trace woke it
  kGil,              // waited for the GIL, and nobody is known to have had it
  kLock,             // waited for a lock, the same
  kWaiting,          // waited for something else that is not known
  kGpu,              // the GPU worked
  kLaunchLatency,    // launched, and the GPU had not begun
  kGpuQueue,         // its stream was free and it was launched, and it had not begun
  kSync,             // the GPU had finished, and the call that waited had not returned
  kGpuWait,          // waited for the GPU, and it is not known for what
  kLost,             // the records of the thread were lost
  kBeforeTrace,      // before the first instant that is known of the thread
  kNotMeasured,      // on a thread whose states were not measured
  kCpuTakenByOther,  // runnable, while a program outside the trace had the CPU
  kCgroupQuota,      // runnable, and the CPU quota of its cgroup was used up
  kDevice,           // slept until a device, as the network
};

// Why somebody waited for what the path is on: thread_state and wait by code, 0 none.
struct Via {
  uint8_t wait = 0;
  int32_t waiter = 0;
  int64_t from_ns = 0;      // since when
  bool for_holder = false;  // it needed nothing that was done before it waited
};

// thread_state_coded, in the order of (thread, start); the threads in any order.
struct StateColumns {
  std::size_t rows;
  const int32_t* thread_id;
  const int64_t* start_ns;
  const int64_t* end_ns;
  const uint8_t* state;
  const int16_t* cpu;
  const uint8_t* waker_kind;
  const int32_t* waker_thread_id;  // 0: no thread
};

// wait_coded, in the same order.
struct WaitColumns {
  std::size_t rows;
  const int32_t* thread_id;
  const int64_t* start_ns;
  const int64_t* end_ns;
  const uint8_t* kind;
  const bool* for_holder;  // for a lock that another thread had
};

// other_run, in the order of (cpu, start).
struct OtherRunColumns {
  std::size_t rows;
  const int16_t* cpu;
  const int64_t* start_ns;
  const int64_t* end_ns;
  const int32_t* program_id;
};

// cpu_quota_wait, in the order of (thread, time).
struct QuotaColumns {
  std::size_t rows;
  const int32_t* thread_id;
  const int64_t* ts_ns;
};

// early_message, in the order of (thread, read_ns).
struct MessageColumns {
  std::size_t rows;
  const int32_t* thread_id;
  const int64_t* read_ns;
  const int64_t* sent_ns;
  const int32_t* sender;
  const uint8_t* wait;  // what its reader would have waited for: wait by code
};

struct PathThread {
  int32_t thread_id;
  int32_t process_id;
  int64_t start_ns;
  int64_t end_ns;
  bool is_measured;
};

// What a GPU did, in the order of (process, device, stream, start).
struct PathActivity {
  int32_t process_id;
  int32_t device_id;
  int64_t stream_id;  // -1: not known
  int64_t start_ns;
  int64_t end_ns;
  int32_t launch_thread_id;  // 0: not known
  int64_t launch_ns;         // when the call had it launched
};

// A call that waited for what ended at from_ns, in the order of (thread, from_ns).
struct PathSync {
  int32_t thread_id;
  int64_t from_ns;
  int64_t to_ns;
  int32_t process_id;
  int32_t device_id;
  int64_t stream_id;  // -1: not known
};

// The first activity on a stream that waited for an event of another one, in the order of (process,
// device, to_stream, to_ns, from_ns). Both streams are known.
struct PathEvent {
  int32_t process_id;
  int32_t device_id;
  int64_t to_stream_id;
  int64_t to_ns;  // it began
  int64_t from_stream_id;
  int64_t from_ns;  // what it waited for had ended
};

struct PathIteration {
  int32_t thread_id;
  int64_t start_ns;
  int64_t end_ns;
};

struct PathInput {
  StateColumns states;
  WaitColumns waits;
  OtherRunColumns other_runs;
  QuotaColumns quotas;
  MessageColumns messages;
  std::vector<PathThread> threads;
  std::vector<PathActivity> activities;
  std::vector<PathSync> syncs;
  std::vector<PathEvent> events;
  std::vector<PathIteration> iterations;
};

// A part of the path. On a GPU: the activity, and thread_id is 0.
struct PathPiece {
  int32_t iteration;  // counted from 0
  int64_t start_ns;
  int64_t end_ns;
  int32_t thread_id;
  int64_t activity;  // position in the input; -1: none
  Cause cause;
  int32_t by;  // the thread, or with kCpuTakenByOther the program, that had the CPU; 0: none
  uint8_t wait;
  int32_t waiter;
};

}  // namespace rls
