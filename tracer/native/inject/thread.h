// A thread of another process, held by ptrace for the fewest microseconds that will do.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "inject/state.h"

namespace rls {

using Clock = std::chrono::steady_clock;

// Why a held thread stopped.
enum class Stop {
  kInterrupt,  // as asked
  kSyscall,    // at the entry or the exit of a system call
  kSignal,     // a signal is about to be delivered
  kGroup,      // the whole process was stopped
  kTimeout,    // it did not stop in time
  kGone,       // it ended
};

// Every method is called by the OS thread that made the object, as ptrace demands. That thread
// must end soon after: whatever is still held then is let go by the kernel.
class HeldThread {
 public:
  // Throws InjectError where the thread cannot be held.
  explicit HeldThread(pid_t tid);
  ~HeldThread();
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;

  // Stops the thread before it runs in user space again, from another stop or while it runs. It
  // may stop for a signal first: then nothing but to let it go makes sense.
  Stop Interrupt(Clock::time_point deadline);
  // Lets it run to the next system call, or without `to_syscall` to the next stop of any other
  // kind. A signal that it stopped for is dropped.
  bool Resume(bool to_syscall);
  Stop Wait(Clock::time_point deadline);

  // After an interrupt. The wait that the thread is in, if any, will go on.
  std::optional<StoppedState> Read();
  // Blocks every signal but those that the thread may raise itself.
  bool BlockSignals();
  bool SetRegisters(const user_regs_struct& registers);
  std::optional<user_regs_struct> Registers();
  // Floating point state and signal mask; the registers are set apart.
  bool RestoreRest(const StoppedState& state);

 private:
  pid_t tid_;
  std::uint64_t pending_signal_ = 0;  // delivered when the thread is let go
  bool is_stopped_ = false;
};

}  // namespace rls
