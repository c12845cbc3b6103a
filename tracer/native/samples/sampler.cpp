#include "samples/sampler.h"

#include <bpf/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "capture/btf_capture.h"
#include "capture/drain.h"
#include "clock.h"
#include "held_up.h"
#include "perf_right.h"
#include "spool/format.h"

namespace rls {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr auto kBusyInterval = std::chrono::milliseconds(5);
constexpr auto kCpuInterval = std::chrono::milliseconds(1000);
// A clock can fall into step with a program that does the same over and over, and then always meets
// it at the same place: shares were off by 13 points. So there are several, out of step with each
// other, and each gets another rate again and again. Their periods as parts of that of all
// together: the sum of the inverses is 1.
constexpr double kPeriods[] = {2.7411, 3.0279, 3.2733};
constexpr double kLeastRate = 0.85;  // and as much more: the mean is 1
// A change begins a period anew, so that half of one is lost: no more often than this many ticks.
constexpr double kTicksAtOneRate = 30;
// Each change is an interrupt of its CPU: on large machines they take turns.
constexpr std::size_t kChangesAtOnce = 64;
constexpr std::size_t kBusyPart = 16;  // of the ring, found full at one look
constexpr std::size_t kMaxPeekBytes = std::size_t{1} << 20;
// Room for a second of a thousand samples on each CPU, a power of two.
constexpr std::uint32_t kRingBytesPerCpu = 1U << 20;
constexpr std::uint32_t kMinRingBytes = 1U << 22;
constexpr std::uint32_t kMaxRingBytes = 1U << 25;
// Behind the target's threads: nothing waits for it, and the ring holds some seconds.
constexpr int kNice = 5;
constexpr auto kPatience = std::chrono::milliseconds(1000);
constexpr std::size_t kFrameBytes =
    (kFrameHeaderBytes + sizeof(rls_raw_sample) + 7) & ~std::size_t{7};

std::uint32_t RingBytes(std::uint32_t cpus) {
  std::uint32_t bytes = kMinRingBytes;
  while (bytes < kMaxRingBytes && bytes < cpus * kRingBytesPerCpu) bytes *= 2;
  return bytes;
}

// "0-3,8": the CPUs that are online.
std::set<int> OnlineCpus() {
  std::ifstream file("/sys/devices/system/cpu/online");
  std::set<int> cpus;
  int first = 0;
  while (file >> first) {
    int last = first;
    if (file.peek() == '-') file.ignore() >> last;
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpu);
    if (file.peek() == ',') file.ignore();
  }
  if (cpus.empty()) throw std::system_error(EIO, std::generic_category(), "listing the CPUs");
  return cpus;
}

int OpenEvent(int cpu, std::uint64_t period_ns) {
  perf_event_attr attributes = {};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.sample_period = period_ns;
  attributes.disabled = 1;
  attributes.exclude_idle = 1;
  const PerfRight right;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

Sampler::Sampler(const std::string& object_path, int threads_fd, int loss_fd, std::uint32_t hz,
                 SpoolWriter* spool, LayerRules rules)
    : object_(object_path), period_ns_(1e9 / std::max(hz, 1U)) {
  object_.SetRingBytes(RingBytes(PossibleCpus()));
  object_.ReuseMap("threads", threads_fd);
  object_.ReuseMap("loss", loss_fd);
  object_.Load();
  object_.RunIterator("learn_recorder");
  ring_ = std::make_unique<RingReader>(object_.MapFd("ring"));
  book_ = std::make_unique<SampleBook>(object_.MapFd("python_processes"), spool, std::move(rules));
}

Sampler::~Sampler() {
  Stop();
  if (!is_left_behind_) return;
  // The thread may go on at any time, with what it works on.
  static_cast<void>(book_.release());
  static_cast<void>(ring_.release());
}

void Sampler::OpenClocks(int cpu) {
  std::vector<int>& opened = clocks_[cpu];
  for (const double part : kPeriods) {
    const int fd = OpenEvent(cpu, static_cast<std::uint64_t>(part * period_ns_));
    if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, object_.ProgramFd("on_tick")) == 0 &&
        (suspended_ || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0)) {
      opened.push_back(fd);
      continue;
    }
    const int error = errno;
    if (fd >= 0) close(fd);
    CloseClocks(cpu);
    throw std::system_error(error, std::generic_category(),
                            "opening the clock of CPU " + std::to_string(cpu));
  }
  sampled_cpus_.insert(cpu);
}

void Sampler::CloseClocks(int cpu) {
  for (const int fd : clocks_[cpu]) close(fd);
  clocks_.erase(cpu);
}

void Sampler::CloseAllClocks() {
  while (!clocks_.empty()) CloseClocks(clocks_.begin()->first);
}

void Sampler::Start() {
  if (thread_.joinable() || stopping_) return;
  try {
    for (const int cpu : OnlineCpus()) OpenClocks(cpu);
  } catch (...) {
    CloseAllClocks();
    throw;
  }
  thread_ = std::thread([this] { Run(); });
}

// Another rate for one clock of each CPU: the others keep theirs meanwhile.
void Sampler::VaryRates(double since_ns) {
  const std::lock_guard<std::mutex> lock(clocks_mutex_);
  const auto cpus = static_cast<double>(std::max(clocks_.size(), kChangesAtOnce));
  const double turn = static_cast<double>(kChangesAtOnce) / cpus;  // how many of them it is for
  const double lost_part = turn * period_ns_ / (2 * since_ns);
  std::uniform_real_distribution<double> rate(kLeastRate + lost_part, 2 - kLeastRate + lost_part);
  for (std::size_t left = std::min(kChangesAtOnce, clocks_.size()); left > 0; --left) {
    auto at = clocks_.upper_bound(varied_cpu_);
    if (at == clocks_.end()) {
      at = clocks_.begin();
      varied_clock_ = (varied_clock_ + 1) % std::size(kPeriods);
    }
    varied_cpu_ = at->first;
    auto period_ns =
        static_cast<std::uint64_t>(kPeriods[varied_clock_] * period_ns_ / rate(random_));
    // Of a CPU that has gone away it cannot be changed, and need not be.
    ioctl(at->second[varied_clock_], PERF_EVENT_IOC_PERIOD, &period_ns);
  }
}

void Sampler::FollowCpus() {
  std::set<int> online;
  try {
    online = OnlineCpus();
  } catch (const std::system_error&) {
    return;
  }
  const std::lock_guard<std::mutex> lock(clocks_mutex_);
  // The clocks of a CPU that went away do not come back with it.
  const std::map<int, std::vector<int>> before = clocks_;
  for (const auto& [cpu, fds] : before)
    if (online.count(cpu) == 0) CloseClocks(cpu);
  for (const int cpu : online) {
    if (clocks_.count(cpu) != 0 || refused_cpus_.count(cpu) != 0) continue;
    try {
      OpenClocks(cpu);
      late_cpus_.insert(cpu);
    } catch (const std::system_error&) {
      refused_cpus_.insert(cpu);
    }
  }
}

// A clock whose CPU has gone away cannot be stopped, nor does it tick.
std::uint64_t Sampler::Suspend() {
  const std::lock_guard<std::mutex> lock(clocks_mutex_);
  suspended_ = true;
  for (const auto& [cpu, fds] : clocks_)
    for (const int fd : fds) ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
  return MonotonicNs();
}

std::uint64_t Sampler::Resume() {
  const std::lock_guard<std::mutex> lock(clocks_mutex_);
  const std::uint64_t now_ns = MonotonicNs();
  suspended_ = false;
  for (const auto& [cpu, fds] : clocks_)
    for (const int fd : fds) ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
  return now_ns;
}

void Sampler::NotePython(pid_t pid, const PythonLayout& layout, std::uint64_t runtime,
                         std::uint16_t self_before) {
  const SampledPython python =
      TellPython(object_.MapFd("python_processes"), pid, layout, runtime, self_before);
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  noted_.emplace_back(pid, python);
}

void Sampler::TakeNoted() {
  std::vector<std::pair<pid_t, SampledPython>> noted;
  {
    const std::lock_guard<std::mutex> lock(facts_mutex_);
    noted.swap(noted_);
  }
  for (const auto& [pid, python] : noted) book_->NotePython(pid, python);
}

void Sampler::Publish() {
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  published_.samples = book_->counts();
  published_.stacks = book_->output().stacks();
  published_.stacks_left_out = book_->output().stacks_left_out();
}

void Sampler::Run() {
  pthread_setname_np(pthread_self(), "rls-sampler");
  tid_ = static_cast<pid_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, static_cast<id_t>(tid_), kNice);
  std::chrono::milliseconds interval = kInterval;
  std::chrono::milliseconds since_cpus{0};
  auto varied_at = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::nano> at_one_rate(kTicksAtOneRate * period_ns_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return stopping_; })) {
    lock.unlock();
    interval = Empty() > ring_->capacity() / kBusyPart ? kBusyInterval : kInterval;
    since_cpus += interval;
    const std::chrono::duration<double, std::nano> since =
        std::chrono::steady_clock::now() - varied_at;
    if (since >= std::max(at_one_rate, {kInterval}) && !is_left_behind_) {
      VaryRates(since.count());
      varied_at = std::chrono::steady_clock::now();
    }
    if (since_cpus >= kCpuInterval && !is_left_behind_) {
      FollowCpus();
      since_cpus = std::chrono::milliseconds(0);
    }
    lock.lock();
  }
  has_ended_ = true;
  wake_.notify_all();
}

std::size_t Sampler::Empty() {
  std::size_t bytes = 0;
  for (;;) {
    const RingSpan span = ring_->Peek(kMaxPeekBytes);
    if (span.bytes == 0) return bytes;
    bytes += span.bytes;
    TakeNoted();
    for (std::size_t at = 0; at < span.bytes && !is_left_behind_;) {
      std::uint32_t length = 0;
      std::memcpy(&length, span.data + at, sizeof(length));
      const std::size_t record_bytes = length & kFrameLengthMask;
      if ((length & kFrameDiscarded) == 0 && record_bytes == sizeof(rls_raw_sample))
        book_->Add(*reinterpret_cast<const rls_raw_sample*>(span.data + at + kFrameHeaderBytes));
      at += (kFrameHeaderBytes + record_bytes + 7) & ~std::size_t{7};
    }
    // The spool is complete, and these samples were counted as lost.
    if (is_left_behind_) return 0;
    book_->Flush(MonotonicNs());
    ring_->Release(span);
    Publish();
  }
}

void Sampler::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  is_left_behind_ = !HasEnded();
  if (is_left_behind_) {
    thread_.detach();
  } else {
    thread_.join();
  }
  {
    const std::lock_guard<std::mutex> lock(clocks_mutex_);
    CloseAllClocks();
  }
  WaitForRunningPrograms();
  if (!is_left_behind_) Empty();
}

bool Sampler::HasEnded() {
  std::unique_lock<std::mutex> lock(mutex_);
  HeldUp held_up;
  while (!wake_.wait_for(lock, kPatience, [this] { return has_ended_; }))
    if (held_up.IsSince(tid_)) return false;
  return true;
}

SamplerCounts Sampler::Counts() {
  SamplerCounts counts;
  {
    const std::lock_guard<std::mutex> lock(facts_mutex_);
    counts = published_;
  }
  counts.cpus = sampled_cpus_.size();
  counts.late_cpus = late_cpus_.size();
  counts.refused_cpus = refused_cpus_.size();
  counts.period_ns = static_cast<std::uint64_t>(period_ns_);
  std::vector<rls_loss> by_cpu(PossibleCpus());
  const std::uint32_t kind = RLS_REC_SAMPLE;
  if (bpf_map_lookup_elem(object_.MapFd("loss"), &kind, by_cpu.data()) == 0)
    for (const rls_loss& loss : by_cpu) counts.lost += loss.count;
  // What nobody took out of the ring.
  if (is_left_behind_) counts.unread = ring_->waiting_bytes() / kFrameBytes;
  counts.lost += counts.unread;
  return counts;
}

}  // namespace rls
