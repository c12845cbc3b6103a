// The sched capture on kernels with BTF: tp_btf programs and task storage (bpf/sched.bpf.c).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bpf/track.h"
#include "capture/bpf_object.h"

namespace rls {

class BtfCapture {
 public:
  // Opens and loads; throws std::system_error where this kernel cannot run it. `pausable`: whether
  // Suspend may be called.
  BtfCapture(const std::string& object_path, std::uint32_t ring_bytes, bool pausable = false);

  void Attach();
  // Marks the process behind `pidfd` as a target. Call after Attach, before EnterExisting.
  void Mark(int pidfd);
  // Enters the marked processes, their threads and descendants; how many threads that were.
  std::uint64_t EnterExisting();
  // Takes the programs for switches and wakeups away until Resume: what threads do meanwhile, and
  // in the cycles around that, is lost to the trace. For measurements of what they cost.
  void Suspend();
  void Resume();
  // After this returns no program of ours runs any more.
  void Detach();
  // Writes the open end of every thread into the ring; after Detach.
  void CloseOpen();

  int RingFd() const { return object_.MapFd("ring"); }
  int LossFd() const { return object_.MapFd("loss"); }
  int ThreadsFd() const { return object_.MapFd("threads"); }
  std::uint64_t MissedRuns() const { return object_.MissedRuns(); }
  std::vector<std::pair<std::string, int>> Programs() const { return object_.Programs(); }
  std::uint64_t FailedUpdates() const { return Control().failed_updates; }

 private:
  rls_control Control() const;

  void TellPause(std::uint64_t start_ns, std::uint64_t end_ns);

  BpfObject object_;
  bool pausable_;
  std::uint64_t pause_start_ns_ = 0;
  std::uint64_t pause_end_ns_ = 0;
};

// Waits until every CPU has left the program it was in when this was called.
void WaitForRunningPrograms();

}  // namespace rls
