#include "capture/live_totals.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "spool/format.h"

namespace rls {
namespace {

// A target with more of them is watched in part; it is recorded as a whole.
constexpr std::size_t kMaxThreads = 1U << 16;
constexpr std::size_t kMaxPrograms = 1U << 14;
constexpr std::size_t kMaxWakers = 64;
constexpr std::size_t kMaxFunctions = 1U << 12;
constexpr std::size_t kMaxStacks = 1U << 18;
constexpr std::int32_t kOtherWakers = RLS_WAKER_UNKNOWN;

template <typename Record>
bool Read(const char* data, std::size_t bytes, Record* record) {
  if (bytes < sizeof(Record)) return false;
  std::memcpy(record, data, sizeof(Record));
  return true;
}

std::uint32_t PidOf(const rls_rec_thread& thread) {
  return thread.ns_tgid != 0 ? thread.ns_tgid : thread.tgid;
}

std::size_t QueueBucket(std::uint64_t ns) {
  std::size_t bucket = 0;
  for (std::uint64_t us = ns / 1000; us > 1 && bucket + 1 < LiveThread::kQueueBuckets; us >>= 1)
    ++bucket;
  return bucket;
}

}  // namespace

void AppendFrame(const void* record, std::size_t bytes, std::string* frames) {
  char header[kFrameHeaderBytes] = {};
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(header, &length, sizeof(length));
  frames->append(header, sizeof(header));
  frames->append(static_cast<const char*>(record), bytes);
  frames->resize((frames->size() + 7) & ~std::size_t{7});
}

void LiveThread::AddOffCpu(std::uint8_t off_state, std::uint64_t off_ns, std::uint64_t wake_ns,
                           std::uint64_t in_ns, std::int32_t waker, bool is_over) {
  std::uint64_t ready_ns = off_ns;
  if (off_state != RLS_OFF_RUNNABLE) {
    ready_ns = wake_ns == 0 ? in_ns : std::clamp(wake_ns, off_ns, in_ns);
    (off_state == RLS_OFF_BLOCKED ? blocked_ns : sleeping_ns) += ready_ns - off_ns;
    if (is_over || wake_ns != 0) {
      const bool is_known = wakers.count(waker) != 0 || wakers.size() < kMaxWakers;
      Wakes& wakes = wakers[is_known ? waker : kOtherWakers];
      ++wakes.count;
      wakes.slept_ns += ready_ns - off_ns;
    }
  }
  runnable_ns += in_ns - ready_ns;
  if (is_over && in_ns > ready_ns) ++queue[QueueBucket(in_ns - ready_ns)];
}

void LiveThread::Add(const rls_rec_cycle& cycle) {
  if (until_ns != 0 && cycle.off_ns > until_ns) lost_ns += cycle.off_ns - until_ns;
  const std::uint64_t off_ns = std::max<std::uint64_t>(cycle.off_ns, until_ns);
  const std::uint64_t out_ns = std::max<std::uint64_t>(cycle.out_ns, off_ns);
  const std::uint64_t in_ns = std::clamp<std::uint64_t>(cycle.in_ns, off_ns, out_ns);
  const bool is_unseen = (cycle.flags & RLS_CYCLE_UNSEEN_SWITCH_IN) != 0 && cycle.in_ns == 0;
  if (is_unseen || cycle.off_state >= RLS_OFF_DEAD) {
    lost_ns += out_ns - off_ns;
  } else {
    AddOffCpu(cycle.off_state, off_ns, cycle.wake_ns, in_ns, cycle.waker, /*is_over=*/true);
    running_ns += out_ns - in_ns;
  }
  ++switches;
  Follow(cycle);
}

void LiveThread::Follow(const rls_rec_cycle& cycle) {
  until_ns = std::max<std::uint64_t>({until_ns, cycle.off_ns, cycle.out_ns});
  out_state = cycle.out_state;
  out_reason = cycle.out_reason;
  has_ended = cycle.out_state == RLS_OFF_DEAD;
}

void LiveThread::AddOpen(const rls_rec_close& open, std::uint64_t now_ns) {
  if (open.off_ns != until_ns || open.off_state >= RLS_OFF_DEAD || now_ns <= until_ns) return;
  const bool is_running = open.in_ns != 0 && open.in_ns <= now_ns;
  const std::uint64_t in_ns = is_running ? std::max<std::uint64_t>(open.in_ns, until_ns) : now_ns;
  AddOffCpu(open.off_state, until_ns, open.wake_ns, in_ns, open.waker, is_running);
  running_ns += now_ns - in_ns;
  until_ns = now_ns;
}

LiveThread* LiveTotals::Thread(std::uint32_t thread_id) {
  const auto found = threads_.find(thread_id);
  if (found != threads_.end()) return &found->second;
  if (thread_id == 0 || threads_.size() >= kMaxThreads) return nullptr;
  LiveThread& thread = threads_[thread_id];
  thread.facts.kind = RLS_REC_THREAD;
  thread.facts.thread_id = thread_id;
  return &thread;
}

void LiveTotals::Add(const RingSpan& span) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t at = 0;
  while (at + kFrameHeaderBytes <= span.bytes) {
    std::uint32_t header = 0;
    std::memcpy(&header, span.data + at, sizeof(header));
    const std::size_t bytes = header & kFrameLengthMask;
    at += kFrameHeaderBytes;
    if (bytes > span.bytes - at) return;
    if ((header & kFrameDiscarded) == 0) AddRecord(span.data + at, bytes);
    at = (at + bytes + 7) & ~std::size_t{7};
  }
}

void LiveTotals::AddRecord(const char* record, std::size_t bytes) {
  std::uint16_t kind = 0;
  if (!Read(record, bytes, &kind)) return;
  ++records_;
  rls_rec_cycle cycle;
  rls_rec_thread entered;
  rls_rec_name name;
  rls_rec_exec exec;
  rls_rec_title title;
  rls_rec_sample sample;
  LiveThread* thread = nullptr;
  if (kind == RLS_REC_CYCLE && Read(record, bytes, &cycle)) {
    if ((thread = Thread(cycle.thread_id)) == nullptr) return;
    if (has_sums_) {
      thread->Add(cycle);
    } else {
      thread->Follow(cycle);
    }
  } else if (kind == RLS_REC_THREAD && Read(record, bytes, &entered)) {
    if ((thread = Thread(entered.thread_id)) == nullptr) return;
    thread->facts = entered;
    if (thread->until_ns != 0) return;  // a cycle of it came first
    thread->until_ns = entered.ts_ns;
    thread->out_state = entered.off_state;
    thread->out_reason = entered.off_reason;
  } else if (kind == RLS_REC_NAME && Read(record, bytes, &name)) {
    if ((thread = Thread(name.thread_id)) != nullptr)
      std::memcpy(thread->facts.comm, name.comm, sizeof(name.comm));
  } else if (kind == RLS_REC_EXEC && Read(record, bytes, &exec)) {
    AddExec(exec);
  } else if (kind == RLS_REC_TITLE && Read(record, bytes, &title)) {
    if (Thread(title.thread_id) != nullptr) titles_[title.thread_id] = title;
  } else if (!has_sums_) {
    return;
  } else if (kind == RLS_REC_SAMPLE && Read(record, bytes, &sample)) {
    AddSample(sample);
  } else if (kind == RLS_REC_STACK) {
    AddStack(record, bytes);
  }
}

void LiveTotals::AddExec(const rls_rec_exec& exec) {
  std::uint32_t pid = exec.ns_tgid;
  if (exec.thread_id != 0) {
    const LiveThread* thread = Thread(exec.thread_id);
    pid = thread == nullptr ? 0 : PidOf(thread->facts);
  }
  if (pid != 0 && (execs_.count(pid) != 0 || execs_.size() < kMaxPrograms)) execs_[pid] = exec;
}

void LiveTotals::AddSample(const rls_rec_sample& sample) {
  const std::size_t layer = sample.layer < RLS_LAYERS ? sample.layer : 0;
  if (LiveThread* thread = Thread(sample.thread_id)) ++thread->samples[layer];
  const auto function = function_of_.find(sample.stack_id);
  if (function != function_of_.end()) ++samples_[function->second].samples[layer];
}

void LiveTotals::AddStack(const char* record, std::size_t bytes) {
  rls_rec_stack stack;
  if (!Read(record, bytes, &stack) || function_of_.size() >= kMaxStacks) return;
  std::string text(record + sizeof(stack),
                   std::min<std::size_t>(stack.bytes, bytes - sizeof(stack)));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos) text.erase(0, line + 1);
  auto found = functions_.find(text);
  if (found == functions_.end()) {
    if (functions_.size() >= kMaxFunctions) return;
    found = functions_.emplace(text, static_cast<std::uint32_t>(samples_.size())).first;
    samples_.emplace_back();
    samples_.back().name = text;
  }
  function_of_[stack.stack_id] = found->second;
}

LiveSnapshot LiveTotals::Snapshot(const std::vector<rls_rec_close>& open, std::uint64_t now_ns) {
  std::unordered_map<std::uint32_t, const rls_rec_close*> open_of;
  for (const rls_rec_close& close : open) open_of[close.thread_id] = &close;
  LiveSnapshot snapshot;
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshot.records = records_;
  snapshot.threads.reserve(threads_.size());
  for (const auto& [id, thread] : threads_) {
    if (thread.facts.tid == 0) continue;
    snapshot.threads.push_back(thread);
    const auto found = open_of.find(id);
    if (found != open_of.end()) snapshot.threads.back().AddOpen(*found->second, now_ns);
  }
  for (const auto& [pid, exec] : execs_) {
    const std::size_t used = std::min<std::size_t>(exec.args_len, sizeof(exec.args));
    if (used != 0) snapshot.commands[pid] = std::string(exec.args, used);
  }
  ForgetEnded();
  for (LiveFunction& function : samples_) {
    if (std::all_of(function.samples.begin(), function.samples.end(),
                    [](std::uint64_t count) { return count == 0; }))
      continue;
    snapshot.functions.push_back(function);
    function.samples = {};
  }
  return snapshot;
}

std::set<std::uint32_t> LiveTotals::Alive() const {
  std::set<std::uint32_t> alive;
  for (const auto& [id, thread] : threads_)
    if (!thread.has_ended) alive.insert(PidOf(thread.facts));
  return alive;
}

// A sample may come before the thread is introduced, or after its end was reported:
// then it is of nobody for ever.
void LiveTotals::ForgetEnded() {
  for (auto at = threads_.begin(); at != threads_.end();) {
    LiveThread& thread = at->second;
    if (thread.has_ended || (thread.is_unknown && thread.facts.tid == 0)) {
      titles_.erase(at->first);
      at = threads_.erase(at);
      continue;
    }
    thread.is_unknown = thread.facts.tid == 0;
    ++at;
  }
  const std::set<std::uint32_t> alive = Alive();
  for (auto at = execs_.begin(); at != execs_.end();)
    at = alive.count(at->first) != 0 ? std::next(at) : execs_.erase(at);
}

void LiveTotals::ForgetStacks() {
  const std::lock_guard<std::mutex> lock(mutex_);
  function_of_.clear();
}

std::string LiveTotals::Keyframe(std::uint64_t cut_ns,
                                 std::array<std::uint64_t, RLS_REC_KINDS>* records) {
  std::string frames;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Whoever looks is to hear of them first.
  if (!has_sums_) ForgetEnded();
  const std::set<std::uint32_t> alive = Alive();
  for (const auto& [id, thread] : threads_) {
    if (thread.facts.tid == 0 || thread.has_ended) continue;
    rls_rec_thread entered = thread.facts;
    entered.entered = RLS_ENTERED_FOUND;
    entered.ts_ns = std::max(thread.until_ns, cut_ns);
    entered.off_state = thread.out_state;
    entered.off_reason = thread.out_reason;
    AppendFrame(&entered, sizeof(entered), &frames);
    ++(*records)[RLS_REC_THREAD];
  }
  for (const auto& [id, title] : titles_) {
    const auto whose = threads_.find(id);
    if (whose == threads_.end() || whose->second.has_ended) continue;
    rls_rec_title known = title;
    known.ts_ns = std::max(title.ts_ns, cut_ns);
    AppendFrame(&known, sizeof(known), &frames);
    ++(*records)[RLS_REC_TITLE];
  }
  for (const auto& [pid, exec] : execs_) {
    if (alive.count(pid) == 0) continue;
    // As if it had been read when the recording began.
    rls_rec_exec known = exec;
    known.thread_id = 0;
    known.ns_tgid = pid;
    known.ts_ns = cut_ns;
    AppendFrame(&known, sizeof(known), &frames);
    ++(*records)[RLS_REC_EXEC];
  }
  return frames;
}

}  // namespace rls
