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
  // Opens and loads; throws std::system_error where this kernel cannot run it.
  BtfCapture(const std::string& object_path, std::uint32_t ring_bytes);

  void Attach();
  // Marks the process behind `pidfd` as a target. Call after Attach, before EnterExisting.
  void Mark(int pidfd);
  // Enters the marked processes, their threads and descendants; how many threads that were.
  std::uint64_t EnterExisting();
  // What each thread is doing: records of kind RLS_REC_CLOSE, one behind the other.
  std::string TellOpen() { return object_.RunIterator("tell_open"); }
  // After this returns no program of ours runs any more.
  void Detach();
  // Writes the open end of every thread into the ring; after Detach.
  void CloseOpen();

  int RingFd() const { return object_.MapFd("ring"); }
  int LossFd() const { return object_.MapFd("loss"); }
  int ThreadsFd() const { return object_.MapFd("threads"); }
  std::uint64_t MissedRuns() const { return object_.MissedRuns(); }
  std::uint64_t FailedUpdates() const { return Control().failed_updates; }

 private:
  rls_control Control() const;

  BpfObject object_;
};

// Waits until every CPU has left the program it was in when this was called.
void WaitForRunningPrograms();

}  // namespace rls
