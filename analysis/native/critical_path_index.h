// Finds what a thread, a CPU or a stream did at an instant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "critical_path_rows.h"

namespace rls {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// Rows [begin, end).
struct Rows {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct ThreadRows {
  PathThread thread;
  Rows states;
  Rows waits;
  Rows syncs;
  Rows quotas;
  Rows messages;
};

class PathIndex {
 public:
  explicit PathIndex(const PathInput& input);

  const ThreadRows* thread(int32_t thread_id) const;
  // The last state of a thread that began before the instant; kNone: none did.
  std::size_t state_before(const ThreadRows& of, int64_t ns) const;
  // The wait of a thread that ended exactly then; kNone: none.
  std::size_t wait_ending(const ThreadRows& of, int64_t end_ns) const;
  // The wait of a thread that covers the time just before an instant; kNone: none.
  std::size_t wait_before(const ThreadRows& of, int64_t ns) const;
  // The last call of a thread that waited for what ended before the instant; kNone: none.
  std::size_t sync_before(const ThreadRows& of, int64_t ns) const;
  // What ended at from_ns of a call that waited; kNone: it is not in the trace.
  std::size_t activity_of(const PathSync& sync) const;
  // What another stream had to end first, by an event: of several the last; kNone: nothing.
  std::size_t awaited_by(std::size_t activity) const;
  // What ran on a stream before; kNone: nothing.
  std::size_t activity_before(std::size_t activity) const;
  // The thread of the same process that ran, or was runnable, until ns: of several the one that did
  // so longest since from_ns. 0: none.
  int32_t sibling_at(const PathThread& thread, int64_t from_ns, int64_t ns) const;
  // Whether the CPU quota was used up when a thread became runnable.
  bool waits_for_quota(const ThreadRows& of, std::size_t state) const;
  // Of the messages that came while a thread was runnable, and without which it would have slept
  // had it had a CPU, the last one before an instant; kNone: none. It reads them right after; what
  // it read after read_by_ns does not count.
  std::size_t message_before(const ThreadRows& of, std::size_t state, int64_t ns,
                             int64_t read_by_ns) const;
  // The last message sent before ns that the thread, which runs in this state, had asked for in
  // vain and then read, by read_by_ns.
  std::size_t message_asked_for(const ThreadRows& of, std::size_t state, int64_t ns,
                                int64_t read_by_ns) const;
  // Stays of programs outside the trace on a CPU.
  Rows others_on(int16_t cpu) const;
  // States in which a traced thread ran on a CPU, in the order of their starts.
  const std::vector<std::size_t>* running_on(int16_t cpu) const;

 private:
  // What ended then on a stream, or with -1 on any of the device; of several the last.
  std::size_t activity_ending(int32_t process_id, int32_t device_id, int64_t stream_id,
                              int64_t end_ns) const;
  void index_rows();
  void index_cpus();
  void index_others();

  const PathInput& in_;
  std::unordered_map<int32_t, ThreadRows> threads_;
  std::unordered_map<int32_t, std::vector<int32_t>> by_process_;
  std::unordered_map<int16_t, std::vector<std::size_t>> by_cpu_;
  std::unordered_map<int16_t, Rows> others_;
  std::unordered_map<int64_t, std::vector<std::size_t>> activities_by_end_;
};

}  // namespace rls
