#include "inject/call.h"

#include <sys/syscall.h>

#include <csignal>

#include "inject/error.h"

namespace rls {
namespace {

constexpr std::uint64_t kDirectionFlag = 0x400;
constexpr std::uint64_t kTrapFlag = 0x100;
// To come to a stop that was asked for; generous, as a thread in the kernel may be at the disk.
constexpr std::chrono::milliseconds kStopTime(500);

// Runs the thread until it is about to return from our frame.
CallEnd RunToReturn(HeldThread& thread, std::uint64_t return_stack, Clock::time_point deadline) {
  for (;;) {
    if (!thread.Resume(true)) return CallEnd::kGone;
    const Stop stop = thread.Wait(deadline);
    if (stop == Stop::kTimeout) return CallEnd::kRunning;
    if (stop == Stop::kGone) return CallEnd::kGone;
    // All others are blocked: this is the function's own crash.
    if (stop == Stop::kSignal) return CallEnd::kCrashed;
    const auto registers = thread.Registers();
    if (!registers) return CallEnd::kGone;
    if (stop == Stop::kSyscall && registers->orig_rax == SYS_rt_sigreturn &&
        registers->rsp == return_stack)
      return CallEnd::kReturned;
  }
}

// Puts the thread back to `state` from any stop but that of an interrupt. From the first step on
// it would get there by itself if we died.
bool GoBack(HeldThread& thread, const StoppedState& state) {
  if (!thread.RestoreRest(state) || !thread.SetRegisters(ResumableRegisters(state.registers)))
    return false;
  // Only a stop by interrupt lies before the kernel's restart of the system call.
  return thread.Interrupt(Clock::now() + kStopTime) == Stop::kInterrupt &&
         thread.SetRegisters(state.registers);
}

// After the deadline: gives up a wait for a lock, which holds nothing; lets everything else end.
CallEnd Abandon(HeldThread& thread, const StoppedState& state) {
  const Stop stop = thread.Interrupt(Clock::now() + kStopTime);
  if (stop == Stop::kGone) return CallEnd::kGone;
  const auto registers = thread.Registers();
  if (stop != Stop::kInterrupt || !registers || registers->orig_rax != SYS_futex)
    return CallEnd::kRunning;
  if (!thread.RestoreRest(state) || !thread.SetRegisters(state.registers)) return CallEnd::kGone;
  return CallEnd::kAbandoned;
}

}  // namespace

CallEnd CallFunction(HeldThread& thread, const StoppedState& state, const ProcessMemory& memory,
                     const RemoteCall& call, Clock::time_point deadline) {
  const SignalFrame frame = BuildFrame(state, call.restorer, call.data);
  if (!memory.Write(frame.address, frame.bytes.data(), frame.bytes.size()))
    throw InjectError("its stack cannot be written");
  user_regs_struct registers = state.registers;
  registers.rip = call.function;
  registers.rsp = frame.address;
  registers.rdi = frame.data_address;
  registers.rsi = call.second_argument;
  registers.rax = 0;
  registers.orig_rax = static_cast<std::uint64_t>(-1);
  registers.eflags &= ~(kDirectionFlag | kTrapFlag);
  // In this order: with the mask first, our death in between would leave a thread deaf.
  if (!thread.SetRegisters(registers) || !thread.BlockSignals()) return CallEnd::kGone;
  const CallEnd end = RunToReturn(thread, frame.address + sizeof(std::uint64_t), deadline);
  if (end == CallEnd::kRunning) return Abandon(thread, state);
  if (end != CallEnd::kGone && !GoBack(thread, state)) return CallEnd::kGone;
  return end;
}

}  // namespace rls
