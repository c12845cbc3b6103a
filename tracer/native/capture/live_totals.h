// What the threads of a target do while they are watched: sums that only grow, of what the spool is
// given, so that the difference of two snapshots tells of the time between them.
//
// It also knows what a segment of the spool has to begin with: the threads that are alive, and
// their programs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "bpf/records.h"
#include "capture/ring_reader.h"

namespace rls {

// Of one thread, since it entered the trace; times in ns.
struct LiveThread {
  static constexpr std::size_t kQueueBuckets = 32;  // [2^n, 2^(n+1)) us; the last one: and above

  struct Wakes {
    std::uint64_t count = 0;
    std::uint64_t slept_ns = 0;
  };

  rls_rec_thread facts = {};     // with its name as it is now
  std::uint64_t until_ns = 0;    // what follows tells of the time up to here
  std::uint64_t out_reason = 0;  // of out_state: see RLS_REASON
  std::uint8_t out_state = 0;    // from until_ns on
  bool has_ended = false;
  bool is_unknown = false;  // at the last look nobody had said whose thread it is
  std::uint64_t running_ns = 0;
  std::uint64_t runnable_ns = 0;
  std::uint64_t sleeping_ns = 0;
  std::uint64_t blocked_ns = 0;
  std::uint64_t lost_ns = 0;
  std::uint64_t switches = 0;
  std::array<std::uint64_t, kQueueBuckets> queue = {};  // waits for a CPU, by their length
  std::array<std::uint64_t, RLS_LAYERS> samples = {};
  std::map<std::int32_t, Wakes> wakers;  // by whom it was woken, as rls_rec_cycle.waker

  void Add(const rls_rec_cycle& cycle);
  // Where it stands after a cycle.
  void Follow(const rls_rec_cycle& cycle);
  // What is open: nothing, where a later record is known already.
  void AddOpen(const rls_rec_close& open, std::uint64_t now_ns);

 private:
  void AddOffCpu(std::uint8_t off_state, std::uint64_t off_ns, std::uint64_t wake_ns,
                 std::uint64_t in_ns, std::int32_t waker, bool is_over);
};

struct LiveFunction {
  std::string name;
  std::array<std::uint64_t, RLS_LAYERS> samples = {};  // since the last snapshot
};

struct LiveSnapshot {
  std::vector<LiveThread> threads;
  std::vector<LiveFunction> functions;
  std::map<std::uint32_t, std::string> commands;  // by pid: arguments, NUL between them
  std::uint64_t records = 0;                      // seen so far
};

class LiveTotals {
 public:
  // has_sums: else it knows no more than keyframes need.
  explicit LiveTotals(bool has_sums = true) : has_sums_(has_sums) {}

  void Add(const RingSpan& span);

  // `open`: what the threads do that have written no record of it yet, at now_ns. Threads that have
  // ended are reported once.
  LiveSnapshot Snapshot(const std::vector<rls_rec_close>& open, std::uint64_t now_ns);

  // Frames that a segment of a spool begins with, which is kept from cut_ns on. Without sums,
  // threads that have ended are forgotten.
  std::string Keyframe(std::uint64_t cut_ns, std::array<std::uint64_t, RLS_REC_KINDS>* records);
  // The segment has begun: stacks are written, and seen, anew.
  void ForgetStacks();

 private:
  void AddRecord(const char* record, std::size_t bytes);
  void AddStack(const char* record, std::size_t bytes);
  void AddSample(const rls_rec_sample& sample);
  void AddExec(const rls_rec_exec& exec);
  void ForgetEnded();
  std::set<std::uint32_t> Alive() const;  // pids, as the recorder sees them
  LiveThread* Thread(std::uint32_t thread_id);

  const bool has_sums_;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, LiveThread> threads_;
  std::unordered_map<std::uint32_t, rls_rec_exec> execs_;    // by the pid, as the recorder sees it
  std::unordered_map<std::uint32_t, rls_rec_title> titles_;  // by the thread that reported it last
  std::unordered_map<std::uint32_t, std::uint32_t> function_of_;  // by stack
  std::unordered_map<std::string, std::uint32_t> functions_;
  std::vector<LiveFunction> samples_;
  std::uint64_t records_ = 0;
};

// Puts the frame of the ring around a record.
void AppendFrame(const void* record, std::size_t bytes, std::string* frames);

}  // namespace rls
