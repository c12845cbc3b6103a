// The state of a stopped thread, and a signal frame that brings the thread back to it.
//
// A function is run in a thread of another process the way the kernel runs a signal handler: its
// return address is libc's signal return, and above it on the stack lies the state to go back to.
// So the thread finds its way home by itself, whatever becomes of us in the meantime.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rls {

struct StoppedState {
  user_regs_struct registers = {};
  std::uint64_t signal_mask = 0;
  std::vector<unsigned char> floating;  // the XSAVE area as ptrace gives it

  // Whether the thread was stopped inside a system call that the kernel is going to restart.
  bool IsRestarting() const;
  // Some waits (epoll_wait, recv with a time limit, ...) end with EINTR when their thread is held.
  // Makes the kernel restart those too, unless a handler of the program runs first; one with a
  // time limit then waits for all of it again. Returns whether there was something to change.
  bool MakeRestarting();
};

// The registers with which a thread in user space does what the kernel would do when it restarts
// an interrupted system call. Where only the kernel knows what is left of a time, the call ends
// with EINTR: used only if the recorder dies in the middle.
user_regs_struct ResumableRegisters(const user_regs_struct& stopped);

// What is laid on the stack of the thread: for the kernel's struct rt_sigframe, and data above it.
struct SignalFrame {
  std::uint64_t address = 0;       // of the return address: the stack pointer at the function
  std::uint64_t data_address = 0;  // of the caller's data
  std::vector<unsigned char> bytes;
};

// Builds a frame below `state`'s stack. `restorer`: the address of libc's signal return.
SignalFrame BuildFrame(const StoppedState& state, std::uint64_t restorer, const std::string& data);

}  // namespace rls
