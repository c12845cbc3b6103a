#include "shim/collector.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "clock.h"
#include "shim/foreign_fd.h"

namespace rls {
namespace {

// A ring of 32,768 records is full after 25 ms at 1.3 million records a second.
constexpr int kIdleMs = 25;
constexpr int kBusyMs = 2;
constexpr int kNobodyMs = 2000;
constexpr std::size_t kBusyBytes = RLS_SHIM_RING_BYTES / 8;
constexpr std::uint64_t kHousekeepingNs = 500'000'000;
constexpr std::uint64_t kForgetNs = 2'000'000'000;
constexpr int kNice = -10;  // as the drain of the kernel's ring
// Thousands of strangers may have connected before the last process of the target did.
constexpr std::uint64_t kLastAnnouncementsNs = 2'500'000'000;
// Pages of the rings that we have read count as ours until they are given back.
constexpr std::size_t kTrimBytes = std::size_t{64} << 20;
// A ring that is this full when it may not be read is about to drop records.
constexpr std::size_t kFullBytes = RLS_SHIM_RING_BYTES / 4 * 3;

}  // namespace

ShimCollector::ShimCollector(const std::string& directory, const std::string& session,
                             TracedProcesses* traced, bool has_segments, bool has_sums)
    : phases_(has_segments ? std::make_unique<LivePhases>(has_sums) : nullptr),
      writer_(directory, phases_.get()),
      session_(session),
      traced_(traced),
      announcements_(session, traced) {
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
  std::uint64_t forget_ns = 0;
  int interval_ms = kIdleMs;
  while (!stopping_) {
    pollfd events[] = {{announcements_.fd(), POLLIN, 0}, {wake_, POLLIN, 0}};
    poll(events, 2, interval_ms);
    ForgetWakeups();
    Receive();
    const std::lock_guard<std::timed_mutex> lock(mutex_);
    const std::size_t fullest = DrainAll();
    interval_ms = open_.empty() ? kNobodyMs : kIdleMs;
    if (fullest > kBusyBytes || announcements_.has_waiting()) interval_ms = kBusyMs;
    if (MonotonicNs() < housekeeping_ns) continue;
    for (Source& source : open_) WriteLosses(&source);
    FinishEnded();
    WriteRefused();
    ForgetBudgets();
    housekeeping_ns = MonotonicNs() + kHousekeepingNs;
    if (traced_ == nullptr || housekeeping_ns < forget_ns) continue;
    traced_->ForgetEnded();
    forget_ns = housekeeping_ns + kForgetNs;
  }
}

// What was written stays readable, and poll() would return at once for ever.
void ShimCollector::ForgetWakeups() {
  std::uint64_t count = 0;
  if (read(wake_, &count, sizeof(count)) < 0) return;  // nobody has: it does not wait
}

void ShimCollector::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  const std::uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) < 0) return;
  thread_.join();
  announcements_.Close();
  const std::uint64_t end_ns = MonotonicNs() + kLastAnnouncementsNs;
  for (Receive(); !announcements_.is_empty() && MonotonicNs() < end_ns; Receive())
    if (announcements_.has_waiting()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  WaitUntilClosed();
  const std::lock_guard<std::timed_mutex> lock(mutex_);
  FetchGpu();
  for (Source& source : open_) source.memory->Detach();
  for (Source& source : open_) Finish(&source, /*has_ended=*/false);
  open_.clear();
  WriteRefused();
}

std::size_t ShimCollector::Receive() {
  const std::vector<Announcement> announced = announcements_.Take();
  for (const Announcement& announcement : announced) {
    {
      const std::lock_guard<std::timed_mutex> lock(mutex_);
      Add(announcement.memfd, announcement.pid);
    }
    CloseForeign(announcement.memfd);
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
  ShimSpan span;
  span.first = reinterpret_cast<const char*>(owners.data());
  span.first_bytes = owners.size() * sizeof(rls_shim_thread);
  TellTids(source, 0, span);
  for (std::size_t index = 0; index < owners.size(); ++index)
    Write(ShimBlockKind::kCells, *source, owned[index], &owners[index], sizeof(owners[index]));
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
    const ShimSpan span = source->memory->Peek(slot);
    if (span.is_damaged) {
      NoteRefused(&ShimRefused::damaged);
      source->memory->Release(slot, span);
    }
    if (span.bytes() == 0) continue;
    if (!WriteCells(source, slot, span)) continue;
    fullest = std::max(fullest, span.bytes());
    source->memory->Release(slot, span);
    cell_count_ += span.bytes() / RLS_SHIM_CELL_BYTES;
    Trim(span.bytes());
  }
  return fullest;
}

// What may not be written stays where it is: the ring counts what finds no room there.
bool ShimCollector::WriteCells(Source* source, std::uint32_t slot, const ShimSpan& span) {
  const bool is_nearly_full = span.bytes() >= kFullBytes;
  if (!MayWrite(*source)) {
    if (is_nearly_full) NoteRefused(&ShimRefused::limited);
    return false;
  }
  TellTids(source, slot, span);
  if (source->watch.introduced() != 0) source->threads[slot] = source->watch.introduced();
  if (Write(ShimBlockKind::kCells, *source, slot, span.first, span.first_bytes, span.second,
            span.second_bytes))
    return true;
  if (is_nearly_full) NoteRefused(&ShimRefused::no_room);
  return false;
}

bool ShimCollector::MayWrite(const Source& source) {
  const std::uint64_t now_ns = MonotonicNs();
  const bool has_left = budgets_[source.pid].bytes.HasLeft(now_ns);
  return bytes_left_.HasLeft(now_ns) && has_left;
}

bool ShimCollector::Write(ShimBlockKind kind, const Source& source, std::uint32_t slot,
                          const void* data, std::size_t bytes, const void* more,
                          std::size_t more_bytes) {
  const std::size_t all = sizeof(ShimBlock) + bytes + more_bytes;
  budgets_[source.pid].bytes.Take(all);
  bytes_left_.Take(all);
  const bool is_written = writer_.Write(kind, source.number, slot, data, bytes, more, more_bytes);
  is_full_ = !is_written;
  return is_written;
}

void ShimCollector::Trim(std::size_t bytes) {
  untrimmed_ += bytes;
  if (untrimmed_ < kTrimBytes) return;
  untrimmed_ = 0;
  for (const Source& source : open_) source.memory->Trim();
}

// In a pid namespace of its own a process sees other thread ids than we do, and once a thread has
// ended nobody knows any more which was which.
void ShimCollector::TellTids(Source* source, std::uint32_t slot, const ShimSpan& span) {
  const std::uint64_t before = source->watch.listings();
  for (const ShimTid& tid : source->watch.Look(span))
    if (!Write(ShimBlockKind::kTid, *source, slot, &tid, sizeof(tid)))
      source->watch.Forget(tid);  // a full disk: perhaps later
  listing_count_ += source->watch.listings() - before;
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  const auto known = known_.find(source->pid);
  if (known != known_.end()) known->second = source->watch.gpu_state();
}

}  // namespace rls
