// Whether a thread waits in the OS kernel for one thing, and for how long.
#pragma once

#include <sys/types.h>

#include <string>

namespace rls {

// Reading memory or a file of the target can wait for a program of its: a file system in user space
// answers when it likes.
class HeldUp {
 public:
  // Whether this thread of ours has not run since the last call, nor is about to.
  bool IsSince(pid_t tid);

 private:
  std::string before_;
};

}  // namespace rls
