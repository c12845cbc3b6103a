// Whether a thread waits in the OS kernel for one thing, and for how long.
#pragma once

#include <sys/types.h>

#include <string>

namespace rls {

// Reading memory or a file of the target can wait for a program of its: a file system in user space
// answers when it likes.
class HeldUp {
 public:
  // Whether this thread of ours, or the one that works for it, has not run since the last call, nor
  // is about to.
  bool IsSince(pid_t tid);

 private:
  std::string before_;
};

// While it lives, the calling thread works for another one, which only waits for it: that one is
// held up when this one is. On a busy machine a scan at low priority takes longer than anybody's
// patience.
class WorksFor {
 public:
  explicit WorksFor(pid_t waiting);
  ~WorksFor();
  WorksFor(const WorksFor&) = delete;
  WorksFor& operator=(const WorksFor&) = delete;

 private:
  pid_t waiting_;
};

}  // namespace rls
