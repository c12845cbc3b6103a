#include "inject/state.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace rls {
namespace {

// What a system call answers inside the kernel when it is to be restarted; never seen outside.
constexpr std::int64_t kRestartSys = -512;
constexpr std::int64_t kRestartNoIntr = -513;
constexpr std::int64_t kRestartNoHandler = -514;
constexpr std::int64_t kRestartBlock = -516;

constexpr std::uint64_t kRedZone = 128;
constexpr std::uint64_t kSyscallBytes = 2;

// The kernel's layout of a signal frame's floating point state.
constexpr std::size_t kSoftwareBytesAt = 464;
constexpr std::size_t kLegacyBytes = 512;
constexpr std::size_t kHeaderBytes = 64;
constexpr std::uint32_t kMagic1 = 0x46505853;
constexpr std::uint32_t kMagic2 = 0x46505845;
constexpr unsigned kTileData = 18;

// UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS.
constexpr std::uint64_t kContextFlags = 7;
// No mode of a signal stack: sigreturn then leaves the thread's own as it is.
constexpr int kKeepSignalStack = 0x70;

// struct rt_sigframe of the kernel without its siginfo, which sigreturn does not read. glibc's
// ucontext_t has a longer signal mask than the kernel's.
struct KernelFrame {
  std::uint64_t return_address;
  std::uint64_t flags;
  std::uint64_t link;
  stack_t stack;
  mcontext_t machine;
  std::uint64_t signal_mask;
};
static_assert(offsetof(KernelFrame, machine) == 48);
// The kernel's sigcontext has 256 bytes, and so has mcontext_t.
static_assert(sizeof(mcontext_t) == 256);

std::uint64_t RoundDown(std::uint64_t value, std::uint64_t to) { return value / to * to; }

template <typename T>
T LoadAt(const std::vector<unsigned char>& bytes, std::size_t at) {
  T value = {};
  if (bytes.size() >= at + sizeof(T)) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The features that the kernel saves for a thread which did not ask for more.
std::uint64_t SavedFeatures(const std::vector<unsigned char>& floating) {
  const auto enabled = LoadAt<std::uint64_t>(floating, kSoftwareBytesAt);
  const auto in_use = LoadAt<std::uint64_t>(floating, kLegacyBytes);
  const std::uint64_t tile = std::uint64_t{1} << kTileData;
  return (in_use & tile) != 0 ? enabled : enabled & ~tile;
}

std::size_t StateBytes(std::uint64_t features) {
  std::size_t bytes = kLegacyBytes + kHeaderBytes;
  for (unsigned feature = 2; feature < 63; ++feature) {
    if ((features >> feature & 1) == 0) continue;
    unsigned size = 0;
    unsigned offset = 0;
    unsigned unused = 0;
    unsigned unused2 = 0;
    if (__get_cpuid_count(0xd, feature, &size, &offset, &unused, &unused2) == 0) continue;
    bytes = std::max(bytes, std::size_t{offset} + size);
  }
  return bytes;
}

// The floating point state as sigreturn wants it: sized, and with the magic numbers around it.
std::vector<unsigned char> FloatingFrame(const std::vector<unsigned char>& floating) {
  const std::uint64_t features = SavedFeatures(floating);
  const std::size_t bytes = StateBytes(features);
  std::vector<unsigned char> frame(bytes + sizeof(kMagic2));
  std::memcpy(frame.data(), floating.data(), std::min(bytes, floating.size()));
  const struct {
    std::uint32_t magic;
    std::uint32_t extended_bytes;
    std::uint64_t features;
    std::uint32_t bytes;
    std::uint32_t padding[7];
  } software = {kMagic1,
                static_cast<std::uint32_t>(bytes + sizeof(kMagic2)),
                features,
                static_cast<std::uint32_t>(bytes),
                {}};
  static_assert(sizeof(software) == 48);
  std::memcpy(frame.data() + kSoftwareBytesAt, &software, sizeof(software));
  std::memcpy(frame.data() + bytes, &kMagic2, sizeof(kMagic2));
  return frame;
}

void FillMachine(const user_regs_struct& from, std::uint64_t floating, mcontext_t* machine) {
  const std::pair<int, unsigned long long> values[] = {
      {REG_R8, from.r8},   {REG_R9, from.r9},     {REG_R10, from.r10}, {REG_R11, from.r11},
      {REG_R12, from.r12}, {REG_R13, from.r13},   {REG_R14, from.r14}, {REG_R15, from.r15},
      {REG_RDI, from.rdi}, {REG_RSI, from.rsi},   {REG_RBP, from.rbp}, {REG_RBX, from.rbx},
      {REG_RDX, from.rdx}, {REG_RAX, from.rax},   {REG_RCX, from.rcx}, {REG_RSP, from.rsp},
      {REG_RIP, from.rip}, {REG_EFL, from.eflags}};
  for (const auto& [index, value] : values) machine->gregs[index] = static_cast<greg_t>(value);
  machine->gregs[REG_CSGSFS] = static_cast<greg_t>(from.cs | from.ss << 48);
  machine->fpregs = reinterpret_cast<fpregset_t>(floating);
}

// A futex wait whose timeout is a point in time may simply be made again.
bool IsRepeatable(const user_regs_struct& stopped) {
  constexpr std::uint64_t kWaitBitset = 9;
  constexpr std::uint64_t kCommand = 0x7f;
  return stopped.orig_rax == SYS_futex && (stopped.rsi & kCommand) == kWaitBitset;
}

}  // namespace

bool StoppedState::IsRestarting() const {
  const auto answer = static_cast<std::int64_t>(registers.rax);
  return static_cast<std::int64_t>(registers.orig_rax) >= 0 &&
         (answer == kRestartSys || answer == kRestartNoIntr || answer == kRestartNoHandler ||
          answer == kRestartBlock);
}

bool StoppedState::MakeRestarting() {
  if (static_cast<std::int64_t>(registers.orig_rax) < 0 ||
      static_cast<std::int64_t>(registers.rax) != -EINTR)
    return false;
  registers.rax = static_cast<std::uint64_t>(kRestartNoHandler);
  return true;
}

user_regs_struct ResumableRegisters(const user_regs_struct& stopped) {
  user_regs_struct registers = stopped;
  registers.orig_rax = static_cast<std::uint64_t>(-1);
  StoppedState state;
  state.registers = stopped;
  if (!state.IsRestarting()) return registers;
  if (static_cast<std::int64_t>(stopped.rax) == kRestartBlock && !IsRepeatable(stopped)) {
    registers.rax = static_cast<std::uint64_t>(-EINTR);
    return registers;
  }
  registers.rax = stopped.orig_rax;
  registers.rip -= kSyscallBytes;
  return registers;
}

SignalFrame BuildFrame(const StoppedState& state, std::uint64_t restorer, const std::string& data) {
  const std::vector<unsigned char> floating = FloatingFrame(state.floating);
  const std::uint64_t top = state.registers.rsp - kRedZone;
  SignalFrame frame;
  frame.data_address = RoundDown(top - data.size(), 16);
  const std::uint64_t floating_address = RoundDown(frame.data_address - floating.size(), 64);
  // As at the first instruction of any function: 8 bytes off a multiple of 16.
  frame.address = RoundDown(floating_address - sizeof(KernelFrame), 16) - 8;
  KernelFrame kernel = {};
  kernel.return_address = restorer;
  kernel.flags = kContextFlags;
  kernel.stack.ss_flags = kKeepSignalStack;
  kernel.signal_mask = state.signal_mask;
  FillMachine(ResumableRegisters(state.registers), floating_address, &kernel.machine);
  frame.bytes.resize(top - frame.address);
  std::memcpy(frame.bytes.data(), &kernel, sizeof(kernel));
  std::memcpy(frame.bytes.data() + (floating_address - frame.address), floating.data(),
              floating.size());
  std::memcpy(frame.bytes.data() + (frame.data_address - frame.address), data.data(), data.size());
  return frame;
}

}  // namespace rls
