// The sched capture without BTF: plain tracepoints and a hash of tids (bpf/sched_tp.bpf.c),
// loaded by libbpf (TracepointCapture) or by bcc, which hands over the file descriptors of its
// maps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bpf/track.h"
#include "capture/bpf_object.h"

namespace rls {

class SpoolWriter;

// Name in the programs, tracepoint group, tracepoint, field: what to look up in tracefs.
using TracepointField = std::tuple<std::string, std::string, std::string, std::string>;
std::vector<TracepointField> TracepointFields();

class TracepointCapture {
 public:
  // `offsets` by the names of TracepointFields; throws std::system_error or std::out_of_range.
  TracepointCapture(const std::string& object_path, std::uint32_t ring_bytes,
                    const std::map<std::string, std::uint32_t>& offsets);

  // All programs, or those with these names.
  void Attach(const std::vector<std::string>& only);
  void Detach();

  int RingFd() const { return object_.MapFd("ring"); }
  int LossFd() const { return object_.MapFd("loss"); }
  int ThreadsFd() const { return object_.MapFd("threads"); }
  int ControlFd() const { return object_.MapFd("control"); }
  std::uint64_t MissedRuns() const { return object_.MissedRuns(); }

 private:
  BpfObject object_;
};

// A thread as /proc shows it, on its way into the filter.
struct FoundThread {
  std::uint32_t tid;
  std::uint32_t tgid;
  std::uint32_t parent_tgid;
  std::uint64_t born_ns;
  rls_off_state off_state;
  std::uint32_t cpu;  // where it runs, or ran last
  std::string comm;
};

// The filter of the flavour without BTF. Borrows its file descriptors.
class ThreadTable {
 public:
  ThreadTable(int threads_fd, int control_fd) : threads_fd_(threads_fd), control_fd_(control_fd) {}

  // Enters a thread unless it is there already; whether it was new.
  bool Enter(const FoundThread& thread);
  // Writes the open end of every thread to the spool (and the thread record of those that had no
  // event at all). Call after the programs are detached.
  void CloseOpen(SpoolWriter* spool);
  // What each thread is doing, as long as it has had an event: records of kind RLS_REC_CLOSE, one
  // behind the other.
  std::string TellOpen() const;
  std::uint64_t FailedUpdates() const;

 private:
  rls_control Control() const;
  void CloseOne(std::uint32_t tid, rls_track track, std::uint64_t* last_thread_id,
                SpoolWriter* spool);

  int threads_fd_;
  int control_fd_;
  std::map<std::uint32_t, FoundThread> found_;
};

}  // namespace rls
