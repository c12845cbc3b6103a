#include "inject/place.h"

#include <dirent.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

namespace rls {
namespace {

// What a call of ours may take of a stack: the loader's needs and our own frame.
constexpr std::uint64_t kRoomBytes = 96 << 10;
constexpr std::size_t kWindowWords = 64;
constexpr std::uint64_t kHandlerBytes = 128 << 10;

constexpr std::array<long, 24> kWaits = {
    SYS_futex,           SYS_poll,          SYS_ppoll,       SYS_select,
    SYS_pselect6,        SYS_epoll_wait,    SYS_epoll_pwait, SYS_nanosleep,
    SYS_clock_nanosleep, SYS_wait4,         SYS_waitid,      SYS_pause,
    SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_read,        SYS_recvfrom,
    SYS_recvmsg,         SYS_accept,        SYS_accept4,     SYS_restart_syscall,
    SYS_epoll_pwait2,    SYS_recvmmsg,      SYS_msgrcv,      SYS_semop};

// Their code may be reached with a lock taken that loading a library needs too.
constexpr std::array<const char*, 12> kLockers = {
    "libc.so",  "libc-",       "ld-linux",    "ld-2",        "libpthread", "libdl",
    "libgcc_s", "libjemalloc", "libtcmalloc", "libmimalloc", "libhoard",   "librseq"};

bool BeginsWithAny(const std::string& name, std::size_t first, std::size_t count) {
  return std::any_of(kLockers.begin() + static_cast<std::ptrdiff_t>(first),
                     kLockers.begin() + static_cast<std::ptrdiff_t>(first + count),
                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; });
}

bool IsLocker(const std::string& name) { return BeginsWithAny(name, 0, kLockers.size()); }

bool IsLoader(const std::string& name) { return BeginsWithAny(name, 2, 2); }

bool IsWait(long number) { return std::find(kWaits.begin(), kWaits.end(), number) != kWaits.end(); }

// Of /proc/PID/task/TID/syscall; number -1: not in a system call.
struct Sleep {
  long number = -1;
  std::uint64_t stack = 0;
  std::uint64_t code = 0;
};

Sleep ReadSleep(pid_t pid, pid_t tid) {
  std::ifstream input("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/syscall");
  std::vector<std::string> words;
  for (std::string word; input >> word;) words.push_back(word);
  Sleep sleep;
  // "running", or a number, six arguments, the stack pointer and the program counter.
  if (words.size() != 9) return sleep;
  sleep.number = std::strtol(words[0].c_str(), nullptr, 10);
  sleep.stack = std::strtoull(words[7].c_str(), nullptr, 16);
  sleep.code = std::strtoull(words[8].c_str(), nullptr, 16);
  return sleep;
}

// How many addresses of the loader's code lie near the top of the stack: perhaps it is at work.
int LoaderTraces(const ProcessMemory& memory, const std::vector<Mapping>& maps,
                 std::uint64_t stack) {
  std::array<std::uint64_t, kWindowWords> words = {};
  if (!memory.Read(stack, words.data(), sizeof(words))) return 0;
  return static_cast<int>(std::count_if(words.begin(), words.end(), [&](std::uint64_t word) {
    const Mapping* mapping = FindMapping(maps, word);
    return mapping != nullptr && mapping->IsExecutable() && IsLoader(mapping->Name());
  }));
}

// A handler may have interrupted anything, so where it is itself says little. Its return address
// stands on the stack; looked for as far up as handlers call as a rule.
bool IsInHandler(const std::vector<Mapping>& maps, const StoppedState& state,
                 const ProcessMemory& memory, std::uint64_t restorer) {
  const std::uint64_t from = (state.registers.rsp + 7) / 8 * 8;
  const std::uint64_t end = FindMapping(maps, state.registers.rsp)->end;
  std::vector<std::uint64_t> words(std::min(end - from, kHandlerBytes) / 8);
  return !memory.Read(from, words.data(), words.size() * 8) ||
         std::find(words.begin(), words.end(), restorer) != words.end();
}

std::string WhyNotThisStack(const std::vector<Mapping>& maps, const StoppedState& state) {
  const Mapping* stack = FindMapping(maps, state.registers.rsp);
  if (stack == nullptr) return "its stack is not mapped";
  // The kernel makes this one longer as it is used.
  if (stack->path == "[stack]") return "";
  // glibc puts what describes a thread at the top of the thread's stack: no such thing at the top
  // of a coroutine's, or of a stack for signals, which may be too small.
  if (FindMapping(maps, state.registers.fs_base) != stack ||
      state.registers.fs_base < state.registers.rsp)
    return "it runs on a stack that is not a thread's own";
  if (state.registers.rsp - stack->start < kRoomBytes) return "its stack is nearly full";
  return "";
}

}  // namespace

std::vector<pid_t> AllThreads(pid_t pid) {
  std::vector<pid_t> threads = {pid};
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (folder == nullptr) return {};
  while (const dirent* entry = readdir(folder.get())) {
    const auto tid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (tid > 0 && tid != pid) threads.push_back(tid);
  }
  return threads;
}

std::vector<pid_t> WaitingThreads(pid_t pid) {
  const std::vector<Mapping> maps = ReadMaps(pid);
  const ProcessMemory memory(pid);
  std::vector<std::pair<int, pid_t>> found;
  for (const pid_t tid : AllThreads(pid)) {
    const Sleep sleep = ReadSleep(pid, tid);
    const Mapping* code = FindMapping(maps, sleep.code);
    if (!IsWait(sleep.number) || code == nullptr || IsLoader(code->Name())) continue;
    const int penalty =
        (sleep.number == SYS_futex ? 1 : 0) + 2 * LoaderTraces(memory, maps, sleep.stack);
    found.emplace_back(penalty, tid);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& left, const auto& right) { return left.first < right.first; });
  std::vector<pid_t> threads;
  for (const auto& [penalty, tid] : found) threads.push_back(tid);
  return threads;
}

std::string WhyNotHere(pid_t pid, const StoppedState& state, const ProcessMemory& memory,
                       std::uint64_t restorer) {
  const std::vector<Mapping> maps = ReadMaps(pid);
  const std::string reason = WhyNotThisStack(maps, state);
  if (!reason.empty()) return reason;
  if (IsInHandler(maps, state, memory, restorer)) return "it may be in a signal handler";
  const Mapping* code = FindMapping(maps, state.registers.rip);
  if (code == nullptr || code->inode == 0) return "it is in code that belongs to no file";
  if (state.IsRestarting() && IsWait(static_cast<long>(state.registers.orig_rax)))
    return IsLoader(code->Name()) ? "it is in the loader" : "";
  if (IsLocker(code->Name())) return "it is in " + code->Name();
  return "";
}

}  // namespace rls
