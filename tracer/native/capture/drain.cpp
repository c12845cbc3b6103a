#include "capture/drain.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "clock.h"

namespace rls {
namespace {

// A look costs 50 to 70 us, however little there is to fetch. Half the ring is reserve for a drain
// that the scheduler lets wait.
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr auto kBusyInterval = std::chrono::milliseconds(5);
constexpr std::size_t kBusyPart = 16;  // of the ring, found full at one look
constexpr auto kLossInterval = std::chrono::milliseconds(500);
// One write() of at most this much, so that a long backlog gives its room back bit by bit.
constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 20;
// Above the target's threads: it needs 1 % of a CPU, and at once when all CPUs are taken.
constexpr int kNice = -10;
// Nobody may ask for them.
constexpr std::size_t kMaxNewPids = 1U << 16;

void Append(const std::vector<std::uint32_t>& pids, std::vector<std::uint32_t>* all) {
  if (all->size() < kMaxNewPids) all->insert(all->end(), pids.begin(), pids.end());
}

}  // namespace

std::uint32_t PossibleCpus() {
  const int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) throw std::system_error(-cpus, std::generic_category(), "counting CPUs");
  return static_cast<std::uint32_t>(cpus);
}

Drain::Drain(int ring_fd, int loss_fd, SpoolWriter* spool, TracedProcesses* traced)
    : ring_(ring_fd),
      loss_fd_(loss_fd),
      spool_(spool),
      traced_(traced),
      new_pids_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (new_pids_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  if (traced_ != nullptr) traced_->NoteDrained(0);
}

Drain::~Drain() {
  Stop();
  close(new_pids_fd_);
}

void Drain::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Drain::Run() {
  pthread_setname_np(pthread_self(), "rls-drain");
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  std::chrono::milliseconds interval{0};  // first of all: what entered when we attached
  std::chrono::milliseconds since_losses{0};
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return stopping_; })) {
    interval = Empty() > ring_.capacity() / kBusyPart ? kBusyInterval : kInterval;
    since_losses += interval;
    if (since_losses < kLossInterval) continue;
    ReadLosses();
    since_losses = std::chrono::milliseconds(0);
  }
}

void Drain::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  Empty();
  ReadLosses();
}

std::size_t Drain::Empty() {
  const std::lock_guard<std::mutex> lock(ring_mutex_);
  std::size_t bytes = 0;
  std::uint64_t empty_ns = 0;
  for (;;) {
    empty_ns = MonotonicNs();
    const RingSpan span = ring_.Peek(kMaxWriteBytes);
    if (span.bytes == 0) break;
    bytes += span.bytes;
    // A ring that fills as fast as it is emptied keeps us here: just when there may be losses.
    if (bytes % ring_.capacity() < span.bytes) ReadLosses();
    spool_->AppendSpan(span);
    ring_.Release(span);
    NoteProcesses(span);
  }
  spool_->NoteDrained(empty_ns);
  if (traced_ != nullptr) traced_->NoteDrained(empty_ns);
  return bytes;
}

void Drain::NoteProcesses(const RingSpan& span) {
  if (span.pids.empty() && span.replaced.empty()) return;
  processes_ += span.pids.size();
  if (traced_ != nullptr && !span.pids.empty()) traced_->Add(span.pids);
  const std::lock_guard<std::mutex> lock(pids_mutex_);
  Append(span.pids, &new_pids_);
  Append(span.replaced, &replaced_pids_);
  Wake();
}

std::vector<std::uint32_t> Drain::TakeNewPids() {
  const std::lock_guard<std::mutex> lock(pids_mutex_);
  eventfd_t count = 0;
  eventfd_read(new_pids_fd_, &count);
  return std::exchange(new_pids_, {});
}

std::vector<std::uint32_t> Drain::TakeReplacedPids() {
  const std::lock_guard<std::mutex> lock(pids_mutex_);
  return std::exchange(replaced_pids_, {});
}

void Drain::Wake() { eventfd_write(new_pids_fd_, 1); }

void Drain::ReadLosses() {
  const std::uint32_t cpus = spool_->cpus();
  std::vector<rls_loss> by_cpu(cpus);
  for (std::uint32_t kind = 0; kind < RLS_REC_KINDS; ++kind) {
    if (bpf_map_lookup_elem(loss_fd_, &kind, by_cpu.data()) != 0) continue;
    for (std::uint32_t cpu = 0; cpu < cpus; ++cpu)
      spool_->SetRingLoss(cpu * RLS_REC_KINDS + kind, by_cpu[cpu]);
  }
  spool_->PublishLosses();
}

}  // namespace rls
