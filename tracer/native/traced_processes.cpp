#include "traced_processes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

#include "clock.h"

namespace rls {
namespace {

// /proc tells the start of a process in ticks, and rounds it.
constexpr std::uint64_t kSlackNs = 50'000'000;
// An announcement can lie in the socket when its process has ended.
constexpr std::uint64_t kAfterEndNs = 5'000'000'000;
// Beyond, processes are known by their ancestors only.
constexpr std::size_t kMaxProcesses = std::size_t{1} << 18;
constexpr std::size_t kMaxUsers = 4096;
constexpr int kMaxAncestors = 64;

struct Begun {
  std::uint32_t parent;
  std::uint64_t start_ns;
};

std::uint64_t StartNs(std::uint64_t ticks) {
  const auto tick_ns = 1'000'000'000ULL / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  // In the time since boot, which goes on while the machine is suspended.
  const std::uint64_t suspended_ns = ReadClockNs(CLOCK_BOOTTIME) - MonotonicNs();
  const std::uint64_t start_ns = ticks * tick_ns;
  return start_ns > suspended_ns ? start_ns - suspended_ns : 0;
}

// None: the process has ended, and somebody has waited for it.
std::optional<Begun> BegunOf(std::uint32_t pid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%u/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return std::nullopt;
  text[length] = '\0';
  // The name may hold anything, parentheses too.
  const char* field = std::strrchr(text, ')');
  if (field == nullptr) return std::nullopt;
  Begun begun = {};
  unsigned long long ticks = 0;
  if (std::sscanf(field + 1,
                  " %*c %u %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d"
                  " %llu",
                  &begun.parent, &ticks) != 2)
    return std::nullopt;
  begun.start_ns = StartNs(ticks);
  return begun;
}

// False: it has ended.
bool UserOf(std::uint32_t pid, std::uint32_t* uid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%u", pid);
  struct stat status = {};
  if (stat(path, &status) != 0) return false;
  *uid = status.st_uid;
  return true;
}

}  // namespace

void TracedProcesses::Add(const std::vector<std::uint32_t>& pids) {
  const std::uint64_t now_ns = MonotonicNs();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::uint32_t pid : pids) {
    std::uint32_t uid = 0;
    if (users_.size() < kMaxUsers && UserOf(pid, &uid)) users_.insert(uid);
    if (pid != 0 && processes_.size() < kMaxProcesses) processes_[pid] = {now_ns, 0};
  }
}

bool TracedProcesses::IsNoted(std::uint32_t pid, std::uint64_t start_ns) const {
  const auto found = processes_.find(pid);
  return found != processes_.end() && start_ns <= found->second.noted_ns + kSlackNs;
}

bool TracedProcesses::Descends(std::uint32_t pid) const {
  for (int count = 0; count < kMaxAncestors && pid > 1; ++count) {
    const std::optional<Begun> begun = BegunOf(pid);
    if (!begun.has_value()) return false;
    if (IsNoted(pid, begun->start_ns)) return true;
    pid = begun->parent;
  }
  return false;
}

Belongs TracedProcesses::Judge(std::uint32_t pid, std::uint32_t uid, std::uint64_t since_ns) {
  // 0: of a pid namespace that we do not see into, so that it cannot be traced.
  if (pid == 0) return Belongs::kNo;
  const bool is_all_known = drained_ns_ > since_ns;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<Begun> begun = BegunOf(pid);
  if (!begun.has_value()) {
    // Whoever has the pid now, or had it since, is not asked: a user of the target's will do.
    if (processes_.count(pid) != 0 && users_.count(uid) != 0) return Belongs::kYes;
  } else if (IsNoted(pid, begun->start_ns) || Descends(begun->parent)) {
    std::uint32_t owner = 0;
    if (users_.size() < kMaxUsers && UserOf(pid, &owner)) users_.insert(owner);
    return Belongs::kYes;
  }
  return is_all_known ? Belongs::kNo : Belongs::kNotKnownYet;
}

void TracedProcesses::ForgetEnded() {
  const std::uint64_t now_ns = MonotonicNs();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    Process& process = entry->second;
    const std::optional<Begun> begun = BegunOf(entry->first);
    std::uint32_t uid = 0;
    if (begun.has_value() && IsNoted(entry->first, begun->start_ns)) {
      if (users_.size() < kMaxUsers && UserOf(entry->first, &uid)) users_.insert(uid);
    } else if (process.ended_ns == 0) {
      process.ended_ns = now_ns;  // and perhaps its pid is somebody else's
    }
    const bool is_over = process.ended_ns != 0 && now_ns - process.ended_ns > kAfterEndNs;
    entry = is_over ? processes_.erase(entry) : std::next(entry);
  }
}

}  // namespace rls
