#include "shim/collector.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "clock.h"

namespace rls {
namespace {

// A ring of 32,768 records is full after 25 ms at 1.3 million records a second.
constexpr int kIdleMs = 25;
constexpr int kBusyMs = 2;
constexpr std::size_t kBusyBytes = RLS_SHIM_RING_BYTES / 8;
constexpr std::uint64_t kHousekeepingNs = 500'000'000;
constexpr int kNice = -10;  // as the drain of the kernel's ring
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

bool Differ(const ShimCounters& left, const ShimCounters& right) {
  return std::memcmp(&left, &right, sizeof(left)) != 0;
}

}  // namespace

ShimCollector::ShimCollector(const std::string& directory, const std::string& session)
    : writer_(directory), session_(session), announcements_(session) {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "making an eventfd");
}

ShimCollector::~ShimCollector() {
  Stop();
  close(wake_);
}

void ShimCollector::Start() {
  thread_ = std::thread([this] { Run(); });
}

void ShimCollector::Run() {
  pthread_setname_np(pthread_self(), "rls-shims");
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  std::uint64_t housekeeping_ns = 0;
  int interval_ms = kIdleMs;
  while (!stopping_) {
    pollfd events[] = {{announcements_.fd(), POLLIN, 0}, {wake_, POLLIN, 0}};
    poll(events, 2, interval_ms);
    Receive();
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t fullest = DrainAll();
    interval_ms = open_.empty() ? -1 : kIdleMs;
    if (fullest > kBusyBytes || announcements_.has_waiting()) interval_ms = kBusyMs;
    if (MonotonicNs() < housekeeping_ns) continue;
    for (Source& source : open_) WriteLosses(&source);
    FinishEnded();
    housekeeping_ns = MonotonicNs() + kHousekeepingNs;
  }
}

void ShimCollector::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  const std::uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) < 0) return;
  thread_.join();
  while (Receive() > 0) {
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  FetchGpu();
  for (Source& source : open_) source.memory->Detach();
  for (Source& source : open_) Finish(&source, /*has_ended=*/false);
  open_.clear();
}

std::size_t ShimCollector::Receive() {
  const std::vector<Announcement> announced = announcements_.Take();
  for (const Announcement& announcement : announced) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Add(announcement.memfd, announcement.pid);
    close(announcement.memfd);
  }
  return announced.size();
}

// For threads that could not do so themselves, or told it to the reader before us.
void ShimCollector::TellOwners(Source* source, const std::vector<std::uint32_t>& slots) {
  std::vector<rls_shim_thread> owners;
  std::vector<std::uint32_t> owned;
  for (const std::uint32_t slot : slots) {
    rls_shim_thread record = {};
    record.kind = RLS_SHIM_THREAD;
    record.tid = source->memory->Owner(slot);
    record.ts_ns = MonotonicNs();
    if (record.tid == 0 || record.tid == source->threads[slot]) continue;
    owners.push_back(record);
    owned.push_back(slot);
    source->threads[slot] = record.tid;
  }
  // All at once: looking their ids up takes time.
  ShimStretch stretch;
  stretch.first = reinterpret_cast<const char*>(owners.data());
  stretch.first_bytes = owners.size() * sizeof(rls_shim_thread);
  TellTids(source, 0, stretch);
  for (std::size_t index = 0; index < owners.size(); ++index)
    writer_.Write(ShimBlockKind::kCells, source->number, owned[index], &owners[index],
                  sizeof(owners[index]));
}

bool ShimCollector::Add(int memfd, std::uint32_t pid) {
  struct stat status = {};
  if (fstat(memfd, &status) != 0 || !seen_.insert({status.st_dev, status.st_ino}).second)
    return false;
  Source source = {};
  try {
    source.memory = std::make_unique<ShimMemory>(memfd);
  } catch (const std::runtime_error& error) {
    // Perhaps it is being made just now, or the other recorder stops: to be looked at again.
    seen_.erase({status.st_dev, status.st_ino});
    if (dynamic_cast<const ShimTaken*>(&error) != nullptr) taken_.insert(pid);
    return false;
  }
  source.number = static_cast<std::uint32_t>(source_count_);
  source.pid = pid;
  source.pidfd = OpenPidfd(pid);
  source.watch = ShimWatch(pid, source.memory->inner_pid() != pid);
  source.threads.resize(RLS_SHIM_SLOTS);
  const ShimSource facts = {pid, source.memory->inner_pid(), source.memory->created_ns(),
                            source.memory->Attach(session_.c_str()), 0};
  if (!writer_.Write(ShimBlockKind::kSource, source.number, 0, &facts, sizeof(facts))) {
    source.memory->Detach();
    seen_.erase({status.st_dev, status.st_ino});  // a full disk: perhaps later
    if (source.pidfd >= 0) close(source.pidfd);
    return false;
  }
  ++source_count_;
  // The first counters are what was lost before us.
  WriteLosses(&source);
  if (facts.reader > 1) {
    std::vector<std::uint32_t> slots(source.memory->slots());
    std::iota(slots.begin(), slots.end(), 0U);
    TellOwners(&source, slots);
  }
  FinishReplaced(pid);
  open_.push_back(std::move(source));
  return true;
}

bool ShimCollector::Knows(std::uint32_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(open_.begin(), open_.end(),
                     [pid](const Source& source) { return source.pid == pid; });
}

bool ShimCollector::IsTaken(std::uint32_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return taken_.count(pid) != 0;
}

std::uint16_t ShimCollector::GpuState(std::uint32_t pid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Source& source : open_)
    if (source.pid == pid) return source.watch.gpu_state();
  return 0;
}

std::uint32_t ShimCollector::Find(std::uint32_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  DIR* listing = opendir(folder.c_str());
  if (listing == nullptr) return 0;
  const std::string wanted = "/memfd:" RLS_SHIM_MEMFD " (deleted)";
  std::uint32_t found = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_.erase(pid);
  }
  while (const dirent* entry = readdir(listing)) {
    const std::string path = folder + "/" + entry->d_name;
    char target[64] = {};
    const ssize_t length = readlink(path.c_str(), target, sizeof(target));
    if (length < 0 || wanted != std::string(target, static_cast<std::size_t>(length))) continue;
    const int memfd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (memfd < 0) continue;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (Add(memfd, pid)) ++found;
    }
    close(memfd);
  }
  closedir(listing);
  const std::uint64_t one = 1;
  if (found > 0 && write(wake_, &one, sizeof(one)) < 0) return found;
  return found;
}

std::size_t ShimCollector::DrainAll() {
  std::size_t fullest = 0;
  for (Source& source : open_) fullest = std::max(fullest, Drain(&source));
  return fullest;
}

std::size_t ShimCollector::Drain(Source* source) {
  std::size_t fullest = 0;
  const std::uint32_t slots = source->memory->slots();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const ShimStretch stretch = source->memory->Peek(slot);
    if (stretch.is_damaged) {
      ++lost_count_;
      source->memory->Release(slot, stretch);
    }
    if (stretch.bytes() == 0) continue;
    fullest = std::max(fullest, stretch.bytes());
    TellTids(source, slot, stretch);
    if (source->watch.introduced() != 0) source->threads[slot] = source->watch.introduced();
    // On a full disk it stays where it is: the ring counts what finds no room there.
    if (!writer_.Write(ShimBlockKind::kCells, source->number, slot, stretch.first,
                       stretch.first_bytes, stretch.second, stretch.second_bytes))
      continue;
    source->memory->Release(slot, stretch);
    cell_count_ += stretch.bytes() / RLS_SHIM_CELL_BYTES;
  }
  return fullest;
}

// In a pid namespace of its own a process sees other thread ids than we do, and once a thread has
// ended nobody knows any more which was which.
void ShimCollector::TellTids(Source* source, std::uint32_t slot, const ShimStretch& stretch) {
  const std::uint64_t before = source->watch.listings();
  for (const ShimTid& tid : source->watch.Look(stretch))
    if (!writer_.Write(ShimBlockKind::kTid, source->number, slot, &tid, sizeof(tid)))
      source->watch.Forget(tid);  // a full disk: perhaps later
  listing_count_ += source->watch.listings() - before;
}

void ShimCollector::WriteLosses(Source* source) {
  const std::uint32_t slots = source->memory->slots();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const ShimCounters now = source->memory->Counters(slot);
    if (slot < source->counters.size() && !Differ(now, source->counters[slot])) continue;
    if (!writer_.Write(ShimBlockKind::kCounters, source->number, slot, &now, sizeof(now))) continue;
    if (slot >= source->counters.size())
      source->counters.resize(slot + 1);
    else
      lost_count_ += now.dropped_events - source->counters[slot].dropped_events;
    source->counters[slot] = now;
  }
  const ShimLost lost = source->memory->Lost();
  if (std::memcmp(&lost, &source->lost, sizeof(lost)) == 0) return;
  if (!writer_.Write(ShimBlockKind::kLost, source->number, 0, &lost, sizeof(lost))) return;
  lost_count_ += lost.events - source->lost.events;
  source->lost = lost;
}

}  // namespace rls
