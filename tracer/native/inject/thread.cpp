#include "inject/thread.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "inject/error.h"

namespace rls {
namespace {

constexpr std::size_t kMaxFloatingBytes = 16384;
constexpr std::size_t kKernelMaskBytes = 8;
// The thread comes back within microseconds as a rule: looking again costs less of its time than
// being woken. Once it is late, we give way.
constexpr std::chrono::microseconds kSpin(300);
constexpr std::chrono::microseconds kPoll(100);
constexpr int kSyscallTrap = SIGTRAP | 0x80;

void* Word(std::uint64_t value) { return reinterpret_cast<void*>(value); }

}  // namespace

HeldThread::HeldThread(pid_t tid) : tid_(tid) {
  // One that ended in the meantime shows at its interrupt.
  if (ptrace(PTRACE_SEIZE, tid_, nullptr, Word(PTRACE_O_TRACESYSGOOD)) != 0 && errno != ESRCH)
    throw InjectError("thread " + std::to_string(tid) + " cannot be traced: " + strerror(errno));
}

HeldThread::~HeldThread() {
  if (is_stopped_) ptrace(PTRACE_DETACH, tid_, nullptr, Word(pending_signal_));
}

Stop HeldThread::Interrupt(Clock::time_point deadline) {
  for (;;) {
    if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) return Stop::kGone;
    if (is_stopped_ && !Resume(false)) return Stop::kGone;
    const Stop stop = Wait(deadline);
    // Any other stop takes the request back.
    if (stop != Stop::kSyscall) return stop;
  }
}

bool HeldThread::Resume(bool to_syscall) {
  const auto request = to_syscall ? PTRACE_SYSCALL : PTRACE_CONT;
  if (ptrace(request, tid_, nullptr, nullptr) != 0) return false;
  pending_signal_ = 0;
  is_stopped_ = false;
  return true;
}

Stop HeldThread::Wait(Clock::time_point deadline) {
  const Clock::time_point spin_end = Clock::now() + kSpin;
  for (;;) {
    siginfo_t info = {};
    // Stops only: the end of the process is news for its parent, which may be us elsewhere.
    if (waitid(P_PID, static_cast<id_t>(tid_), &info, WSTOPPED | WNOHANG | __WALL) != 0 &&
        errno != EINTR)
      return Stop::kGone;
    if (info.si_pid != 0) {
      is_stopped_ = true;
      const int event = info.si_status >> 8;
      const int signal = info.si_status & 0xff;
      if (signal == kSyscallTrap) return Stop::kSyscall;
      pending_signal_ = 0;
      if (event == PTRACE_EVENT_STOP) return signal == SIGTRAP ? Stop::kInterrupt : Stop::kGroup;
      pending_signal_ = static_cast<std::uint64_t>(signal);
      return Stop::kSignal;
    }
    const Clock::time_point now = Clock::now();
    if (now > deadline) return Stop::kTimeout;
    if (now < spin_end) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
}

std::optional<user_regs_struct> HeldThread::Registers() {
  user_regs_struct registers = {};
  if (ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) != 0) return std::nullopt;
  return registers;
}

std::optional<StoppedState> HeldThread::Read() {
  StoppedState state;
  state.floating.resize(kMaxFloatingBytes);
  iovec part = {state.floating.data(), state.floating.size()};
  const auto registers = Registers();
  if (!registers ||
      ptrace(PTRACE_GETSIGMASK, tid_, Word(kKernelMaskBytes), &state.signal_mask) != 0 ||
      ptrace(PTRACE_GETREGSET, tid_, Word(NT_X86_XSTATE), &part) != 0)
    return std::nullopt;
  state.registers = *registers;
  state.floating.resize(part.iov_len);
  if (state.MakeRestarting() && !SetRegisters(state.registers)) return std::nullopt;
  return state;
}

bool HeldThread::BlockSignals() {
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS})
    mask &= ~(std::uint64_t{1} << (own - 1));
  return ptrace(PTRACE_SETSIGMASK, tid_, Word(kKernelMaskBytes), &mask) == 0;
}

bool HeldThread::SetRegisters(const user_regs_struct& registers) {
  user_regs_struct copy = registers;
  return ptrace(PTRACE_SETREGS, tid_, nullptr, &copy) == 0;
}

bool HeldThread::RestoreRest(const StoppedState& state) {
  std::vector<unsigned char> floating = state.floating;
  std::uint64_t mask = state.signal_mask;
  iovec part = {floating.data(), floating.size()};
  const bool is_set = ptrace(PTRACE_SETREGSET, tid_, Word(NT_X86_XSTATE), &part) == 0;
  return ptrace(PTRACE_SETSIGMASK, tid_, Word(kKernelMaskBytes), &mask) == 0 && is_set;
}

}  // namespace rls
