// The thread that empties the ring into the spool while the target runs.
//
// It wakes by the clock, never by the producers: a wakeup from BPF costs the traced machine 0.6 to
// 3.8 us a record, a look every 100 ms costs nothing, and the ring has room for five times that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "capture/ring_reader.h"
#include "capture/spool_writer.h"
#include "traced_processes.h"

namespace rls {

class Drain {
 public:
  // Borrows the file descriptors and the rest, which have to outlive it. traced: is told which
  // processes enter; nullptr: nobody is.
  Drain(int ring_fd, int loss_fd, SpoolWriter* spool, TracedProcesses* traced = nullptr);
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  ~Drain();

  void Start();
  // Empties the ring a last time and joins the thread. Safe to call twice.
  void Stop();
  // Empties the ring now, from whichever thread; how many bytes there were.
  std::size_t Empty();

  // Processes that entered the trace so far.
  std::uint64_t processes() const { return processes_; }
  // Those that entered since the last call, as the recorder sees their pids.
  std::vector<std::uint32_t> TakeNewPids();
  // Those that called exec since the last call, by their pids of the first pid namespace: what they
  // run may have to be looked at anew.
  std::vector<std::uint32_t> TakeReplacedPids();
  // Readable from when one enters or calls exec, or Wake() is called, until new pids are taken.
  int new_pids_fd() const { return new_pids_fd_; }
  void Wake();

 private:
  void Run();
  void NoteProcesses(const RingSpan& span);
  void ReadLosses();

  std::mutex ring_mutex_;
  RingReader ring_;
  int loss_fd_;
  SpoolWriter* spool_;
  TracedProcesses* traced_;
  std::atomic<std::uint64_t> processes_{0};
  std::mutex pids_mutex_;
  std::vector<std::uint32_t> new_pids_;
  std::vector<std::uint32_t> replaced_pids_;
  int new_pids_fd_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
};

// Possible CPUs, as per-CPU maps count them. Throws std::system_error.
std::uint32_t PossibleCpus();

}  // namespace rls
