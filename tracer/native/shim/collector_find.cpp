// How the memory of a process comes to be read: it was announced, or found in /proc.
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "clock.h"
#include "mounts.h"
#include "shim/collector.h"

namespace rls {
namespace {

// How long the thread that empties the rings may keep another one waiting.
constexpr auto kWaitForRings = std::chrono::milliseconds(200);
// That are remembered, so as not to be looked at twice.
constexpr std::size_t kMaxSeen = 65536;
// Descriptors that are left for announcements and for all else.
constexpr rlim_t kSpareFds = 64;

// -1: the process has ended, or the descriptor is needed for something else.
int OpenPidfd(std::uint32_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  rlimit limit = {};
  if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      static_cast<rlim_t>(fd) + kSpareFds < limit.rlim_cur)
    return fd;
  close(fd);
  return -1;
}

bool HasName(int folder, const char* name) {
  static const std::string wanted = "/memfd:" RLS_SHIM_MEMFD " (deleted)";
  char target[64];
  const ssize_t length = readlinkat(folder, name, target, sizeof(target));
  return length >= 0 && wanted == std::string(target, static_cast<std::size_t>(length));
}

}  // namespace

bool ShimCollector::HasRoomFor(std::uint32_t pid) {
  Budget& memories = budgets_[pid].memories;
  const bool has_left = memories.HasLeft(MonotonicNs());
  memories.Take(1);
  if (has_left && open_.size() < kMaxSources) return true;
  NoteRefused(&ShimRefused::memories);
  return false;
}

bool ShimCollector::Open(int memfd, std::uint32_t pid, Source* source) {
  try {
    source->memory = std::make_unique<ShimMemory>(memfd);
    return true;
  } catch (const ShimTaken&) {
    const std::lock_guard<std::mutex> lock(facts_mutex_);
    taken_.insert(pid);
  } catch (const std::runtime_error&) {
    // Perhaps it is being made just now.
  }
  return false;
}

bool ShimCollector::Add(int memfd, std::uint32_t pid) {
  struct stat status = {};
  // Anything else may have us wait.
  if (fcntl(memfd, F_GET_SEALS) < 0 || fstat(memfd, &status) != 0) return false;
  const std::pair<std::uint64_t, std::uint64_t> id = {status.st_dev, status.st_ino};
  if (seen_.count(id) != 0) return false;
  Source source = {};
  // To be looked at again, where the other recorder stops.
  if (!Open(memfd, pid, &source)) return false;
  if (seen_.size() >= kMaxSeen) seen_.clear();
  seen_.insert(id);
  if (!HasRoomFor(pid)) return false;
  source.number = static_cast<std::uint32_t>(source_count_);
  source.pid = pid;
  source.pidfd = OpenPidfd(pid);
  source.watch = ShimWatch(pid, source.memory->inner_pid() != pid);
  source.threads.resize(RLS_SHIM_SLOTS);
  const ShimSource facts = {pid, source.memory->inner_pid(), source.memory->created_ns(),
                            source.memory->Attach(session_.c_str()), 0};
  if (!Write(ShimBlockKind::kSource, source, 0, &facts, sizeof(facts))) {
    source.memory->Detach();
    seen_.erase(id);  // a full disk: perhaps later
    if (source.pidfd >= 0) close(source.pidfd);
    return false;
  }
  ++source_count_;
  // What the first reader finds is its own loss.
  WriteLosses(&source, facts.reader > 1);
  if (facts.reader > 1) {
    std::vector<std::uint32_t> slots(source.memory->slots());
    std::iota(slots.begin(), slots.end(), 0U);
    TellOwners(&source, slots);
  }
  FinishReplaced(pid);
  open_.push_back(std::move(source));
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  known_[pid] = 0;
  return true;
}

bool ShimCollector::Knows(std::uint32_t pid) {
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  return known_.count(pid) != 0;
}

bool ShimCollector::IsTaken(std::uint32_t pid) {
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  return taken_.count(pid) != 0;
}

std::uint16_t ShimCollector::GpuState(std::uint32_t pid) {
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  const auto found = known_.find(pid);
  return found == known_.end() ? 0 : found->second;
}

// The process may put another file there at any time: what is looked at is what is opened.
bool ShimCollector::AddCandidate(int folder, const char* name, std::uint32_t pid) {
  const int held = openat(folder, name, O_PATH | O_CLOEXEC);
  if (held < 0) return false;
  bool is_new = false;
  if (shared_mount_ == kNoMount) shared_mount_ = SharedMount(0);
  if (shared_mount_ != kNoMount && MountOf(held) == shared_mount_) {
    const std::string path = "/proc/self/fd/" + std::to_string(held);
    const int memfd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    std::unique_lock<std::timed_mutex> lock(mutex_, std::defer_lock);
    is_new = memfd >= 0 && lock.try_lock_for(kWaitForRings) && Add(memfd, pid);
    if (memfd >= 0) close(memfd);
  }
  close(held);
  return is_new;
}

std::uint32_t ShimCollector::Find(std::uint32_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd";
  DIR* listing = opendir(path.c_str());
  if (listing == nullptr) return 0;
  const std::uint64_t begin_ns = MonotonicNs();
  // Now that it is open, it is of this process and of no later one.
  if (traced_ != nullptr && traced_->Judge(pid, UINT32_MAX, begin_ns) != Belongs::kYes) {
    closedir(listing);
    return 0;
  }
  {
    const std::lock_guard<std::mutex> lock(facts_mutex_);
    taken_.erase(pid);
  }
  std::uint32_t found = 0;
  int candidates = 0;
  while (const dirent* entry = readdir(listing)) {
    if (HasName(dirfd(listing), entry->d_name)) {
      ++candidates;
      if (AddCandidate(dirfd(listing), entry->d_name, pid)) ++found;
    }
    if (candidates >= kMaxCandidates || MonotonicNs() - begin_ns > kFindNs) break;
  }
  closedir(listing);
  const std::uint64_t one = 1;
  if (found > 0 && write(wake_, &one, sizeof(one)) < 0) return found;
  return found;
}

}  // namespace rls
