// Which processes belong to the target: shims of these are heard, and of no others.
//
// Whoever empties the ring of the OS kernel notes the processes that enter the trace, a moment
// after they did. A pid is not enough: the OS kernel gives it to somebody else once its process has
// ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace rls {

enum class Belongs { kYes, kNo, kNotKnownYet };

class TracedProcesses {
 public:
  // Of the target since now at the latest, and with it all that it starts.
  void Add(const std::vector<std::uint32_t>& pids);
  // From here on processes are noted by a drain, which has seen all that entered before ts_ns.
  void NoteDrained(std::uint64_t ts_ns) { drained_ns_ = ts_ns; }

  // Of a process that connected, as this user, at since_ns or before; it may have ended.
  Belongs Judge(std::uint32_t pid, std::uint32_t uid, std::uint64_t since_ns);
  // Forgets those that ended a while ago; to be called every now and then.
  void ForgetEnded();

 private:
  struct Process {
    std::uint64_t noted_ns;  // it began before
    std::uint64_t ended_ns;  // when it was missed first; 0: it was not
  };

  bool IsNoted(std::uint32_t pid, std::uint64_t start_ns) const;
  bool Descends(std::uint32_t pid) const;

  std::mutex mutex_;
  std::map<std::uint32_t, Process> processes_;
  std::set<std::uint32_t> users_;  // that processes of the target were seen to run as
  std::atomic<std::uint64_t> drained_ns_{UINT64_MAX};  // nobody drains: what is known is all
};

}  // namespace rls
