// Runs a function of another process in a thread of it.
#pragma once

#include <string>

#include "inject/maps.h"
#include "inject/thread.h"

namespace rls {

struct RemoteCall {
  std::uint64_t function;
  std::uint64_t restorer;  // libc's signal return
  // Laid on the thread's stack; its address is the first argument.
  std::string data;
  std::uint64_t second_argument;
};

enum class CallEnd {
  kReturned,
  kAbandoned,  // it waited for a lock until the deadline; the thread is where it was before
  kRunning,    // past the deadline, and left to return by itself
  kCrashed,    // it raised a fatal signal, which was taken back; the thread is where it was before
  kGone,       // the thread ended
};

// `thread` is stopped by an interrupt, in `state`. But for kRunning and kGone it is so again when
// this returns, and the system call it was in will be restarted as if nothing had happened.
CallEnd CallFunction(HeldThread& thread, const StoppedState& state, const ProcessMemory& memory,
                     const RemoteCall& call, Clock::time_point deadline);

}  // namespace rls
