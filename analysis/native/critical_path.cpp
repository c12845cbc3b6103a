#include "critical_path.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "critical_path_index.h"
#include "critical_path_queues.h"

namespace rls {
namespace {

enum State : uint8_t { kRunningState, kRunnableState, kSleepingState, kBlockedState };
// Of WAITS in schema/vocabulary.py, those that tell causes apart.
enum Wait : uint8_t {
  kNoWait = 0,
  kGilWait = 1,
  kGpuWaitKind = 2,
  kIoWait = 3,
  kLockWait = 4,
  kSocketWait = 6,
  kSleepWait = 7,
  kPollWait = 8,
};
// Of WAKER_KINDS there.
enum Waker : uint8_t {
  kNobody,
  kThread,
  kByInterrupt,
  kByOutside,
  kByUnknown,
  kByTimer,
  kByDevice,
};
// A wait for the GIL goes on in slices; between two of them a thread does no more than ask for it.
constexpr int64_t kAskingNs = 100'000;
// Threads that wait for what comes from outside look after timers in between, or take turns, for
// less.
constexpr int64_t kTimersNs = 1'000'000;
// A thread that ends, having run so many times as long as it was waited for, was told to end: a
// pool that spins until then did nothing that was waited for.
constexpr int64_t kTimesWaited = 100;
constexpr int64_t kNever = INT64_MAX / 2;

// Whether neither a traced thread nor time ended the wait.
bool is_from_outside(Cause cause) {
  return cause == Cause::kNetwork || cause == Cause::kDevice || cause == Cause::kOutside;
}

class Walk {
 public:
  Walk(const PathInput& input, const PathIndex& index, int32_t number,
       std::vector<PathPiece>* pieces)
      : in_(input), index_(index), number_(number), pieces_(pieces) {}

  void run(const PathIteration& iteration) {
    now_ns_ = iteration.end_ns;
    lead_thread_id_ = iteration.thread_id;
    on_thread(lead_thread_id_);
    while (now_ns_ > iteration.start_ns) {
      begin_ns_ = iteration.start_ns;
      leave_holders();
      if (activity_ != kNone) {
        step_on_gpu();
      } else {
        step_on_thread();
      }
    }
  }

 private:
  void on_thread(int32_t thread_id);
  void step_on_thread();
  void step_on_gpu();
  void step_unmeasured(const ThreadRows& of);
  void running(const ThreadRows& of, std::size_t state);
  void runnable(const ThreadRows& of, std::size_t state);
  void waiting(const ThreadRows& of, std::size_t state);
  bool follow_message(const ThreadRows& of, std::size_t state);
  bool follow_asked_message(const ThreadRows& of, std::size_t state);
  bool follow_wakeup(const ThreadRows& of, std::size_t state);
  bool could_act(const ThreadRows* by, int64_t ns, State last) const;
  bool was_told_to_end(const ThreadRows& of, int32_t waker, int64_t slept_ns) const;
  const PathSync* sync_since(const ThreadRows& of, int64_t from_ns) const;
  void enter_gpu(const PathSync& sync);
  bool follow_sync(const ThreadRows& of, int64_t from_ns, Cause cause);
  void split_by_cpu(const ThreadRows& of, std::size_t state, int64_t from_ns);
  uint8_t kind_of(std::size_t wait) const {
    return wait == kNone ? uint8_t{kNoWait} : in_.waits.kind[wait];
  }
  Cause cause_of_wait(uint8_t state, uint8_t kind, uint8_t waker) const;
  int64_t gil_wait_start(const ThreadRows& of, std::size_t wait) const;
  std::size_t last_waiter(const ThreadRows& of) const;
  void wait_for_outside(const ThreadRows& of);
  bool goes_on_outside(const ThreadRows& of, Cause cause, uint8_t kind) const;
  void wait_via(const Via& via);
  void come_back_to(std::size_t via);
  void leave_holders();
  bool is_over(const Via& via) const;
  void emit(int64_t from_ns, Cause cause, int32_t by = 0);
  void add(int64_t from_ns, Cause cause, int32_t by, const Via& via);

  const PathInput& in_;
  const PathIndex& index_;
  const int32_t number_;
  std::vector<PathPiece>* const pieces_;
  // How far back the next step may go: to the start of the iteration, or of a wait for a holder.
  int64_t begin_ns_ = 0;
  int64_t now_ns_ = 0;
  int32_t lead_thread_id_ = 0;
  int32_t thread_id_ = 0;
  // When the path came to this thread: what it did later it was not needed for.
  int64_t came_ns_ = 0;
  std::size_t activity_ = kNone;
  // Of the last wait, where it was for what came from outside: how long threads ran just before it,
  // and its cause.
  int64_t ran_before_outside_ns_ = kNever;
  Cause outside_cause_ = Cause::kUnknown;
  std::vector<Via> vias_;
  // How many vias there are up to each that waits for a holder; of later ones the wait began later.
  std::vector<std::size_t> holder_vias_;
};

// Whether nobody waits any more for what the path is on.
bool Walk::is_over(const Via& via) const {
  // Who asked for a message is back on the path: it did something else before.
  const bool is_back = via.waiter == thread_id_ && activity_ == kNone && !via.for_holder;
  return via.from_ns >= now_ns_ || is_back;
}

// Everything from here back to from_ns. What somebody waits for ends where the wait began.
void Walk::emit(int64_t from_ns, Cause cause, int32_t by) {
  from_ns = std::max(from_ns, begin_ns_);
  while (now_ns_ > from_ns) {
    while (!vias_.empty() && is_over(vias_.back())) vias_.pop_back();
    const Via via = vias_.empty() ? Via{} : vias_.back();
    add(vias_.empty() ? from_ns : std::max(from_ns, via.from_ns), cause, by, via);
  }
}

void Walk::add(int64_t from_ns, Cause cause, int32_t by, const Via& via) {
  if (cause == Cause::kRunning && ran_before_outside_ns_ <= kTimersNs)
    ran_before_outside_ns_ += std::min(now_ns_ - from_ns, kNever);
  const int32_t thread_id = activity_ == kNone ? thread_id_ : 0;
  const int64_t activity = activity_ == kNone ? -1 : static_cast<int64_t>(activity_);
  if (!pieces_->empty()) {
    PathPiece& last = pieces_->back();
    if (last.iteration == number_ && last.start_ns == now_ns_ && last.thread_id == thread_id &&
        last.activity == activity && last.cause == cause && last.by == by &&
        last.wait == via.wait && last.waiter == via.waiter) {
      last.start_ns = now_ns_ = from_ns;
      return;
    }
  }
  pieces_->push_back(
      {number_, from_ns, now_ns_, thread_id, activity, cause, by, via.wait, via.waiter});
  now_ns_ = from_ns;
}

void Walk::on_thread(int32_t thread_id) {
  thread_id_ = thread_id;
  came_ns_ = now_ns_;
}

void Walk::step_on_thread() {
  const ThreadRows* of = index_.thread(thread_id_);
  if (of == nullptr) return emit(begin_ns_, Cause::kUnknown);
  if (now_ns_ <= of->thread.start_ns) return emit(begin_ns_, Cause::kBeforeTrace);
  if (now_ns_ > of->thread.end_ns) return emit(of->thread.end_ns, Cause::kUnknown);
  if (!of->thread.is_measured) return step_unmeasured(*of);
  const std::size_t i = index_.state_before(*of, now_ns_);
  if (i == kNone) return emit(of->thread.start_ns, Cause::kLost);
  if (in_.states.end_ns[i] < now_ns_) return emit(in_.states.end_ns[i], Cause::kLost);
  switch (in_.states.state[i]) {
    case kRunningState:
      return running(*of, i);
    case kRunnableState:
      return runnable(*of, i);
    default:
      return waiting(*of, i);
  }
}

void Walk::step_unmeasured(const ThreadRows& of) {
  if (follow_sync(of, of.thread.start_ns, Cause::kNotMeasured)) return;
  emit(of.thread.start_ns, Cause::kNotMeasured);
}

void Walk::running(const ThreadRows& of, std::size_t state) {
  const int64_t from_ns = in_.states.start_ns[state];
  if (follow_asked_message(of, state)) return;
  if (follow_sync(of, from_ns, Cause::kRunning)) return;
  emit(from_ns, Cause::kRunning);
}

// Goes to the thread whose message this one asked for again and again until it had come.
bool Walk::follow_asked_message(const ThreadRows& of, std::size_t state) {
  const MessageColumns& m = in_.messages;
  const std::size_t found = index_.message_asked_for(of, state, now_ns_, came_ns_);
  if (found == kNone || m.sent_ns[found] < begin_ns_ || m.sender[found] == thread_id_) return false;
  const PathSync* sync = sync_since(of, m.sent_ns[found]);
  if (sync != nullptr && sync->from_ns > m.sent_ns[found]) return false;
  if (!could_act(index_.thread(m.sender[found]), m.sent_ns[found], kRunningState)) return false;
  emit(m.sent_ns[found], Cause::kRunning);
  wait_via({m.wait[found], thread_id_, in_.states.start_ns[state]});
  on_thread(m.sender[found]);
  return true;
}

// The last call that waited for the GPU, if what it waited for ended between from_ns and now.
const PathSync* Walk::sync_since(const ThreadRows& of, int64_t from_ns) const {
  const std::size_t i = index_.sync_before(of, now_ns_);
  if (i == kNone || in_.syncs[i].from_ns < std::max(from_ns, begin_ns_)) return nullptr;
  return &in_.syncs[i];
}

// On with what a call waited for, at the instant that ended it.
void Walk::enter_gpu(const PathSync& sync) {
  const std::size_t activity = index_.activity_of(sync);
  if (activity != kNone && in_.activities[activity].start_ns < now_ns_) activity_ = activity;
}

// From here on the path is on what somebody else waits for.
void Walk::wait_via(const Via& via) {
  vias_.push_back(via);
  if (via.for_holder) come_back_to(vias_.size() - 1);
}

// Back to this waiter at the instant where its wait began, unless to one that began later.
void Walk::come_back_to(std::size_t via) {
  vias_[via].for_holder = true;
  if (holder_vias_.empty() || vias_[holder_vias_.back() - 1].from_ns < vias_[via].from_ns)
    holder_vias_.push_back(via + 1);
}

// Whoever waited for the GIL, a lock of the driver or what came from outside needed nothing that
// was done before: back at the instant where the wait began.
void Walk::leave_holders() {
  while (!holder_vias_.empty()) {
    const Via via = vias_[holder_vias_.back() - 1];
    if (via.from_ns < now_ns_) {
      begin_ns_ = std::max(begin_ns_, via.from_ns);
      return;
    }
    vias_.resize(holder_vias_.back() - 1);
    while (!holder_vias_.empty() && holder_vias_.back() > vias_.size()) holder_vias_.pop_back();
    on_thread(via.waiter);
    activity_ = kNone;
  }
}

// Of those of its process that wait for what this thread does, the one that began last.
std::size_t Walk::last_waiter(const ThreadRows& of) const {
  std::size_t last = kNone;
  for (std::size_t i = 0; i < vias_.size(); ++i) {
    const ThreadRows* waiter = index_.thread(vias_[i].waiter);
    if (is_over(vias_[i]) || waiter == nullptr) continue;
    if (waiter->thread.process_id != of.thread.process_id) continue;
    if (last == kNone || vias_[i].from_ns >= vias_[last].from_ns) last = i;
  }
  return last;
}

// A thread that polls reads what comes from outside for all of its process: who waits for it needed
// nothing that this thread did before. Who asks and reads by itself has waited since it asked.
void Walk::wait_for_outside(const ThreadRows& of) {
  const std::size_t last = last_waiter(of);
  if (last == kNone || vias_[last].for_holder) return;
  come_back_to(last);
  begin_ns_ = std::max(begin_ns_, vias_[last].from_ns);
}

// Whether a timeout is a part of the wait for what comes from outside that follows at once: of a
// thread that polls, or that others wait for. The leading thread may well sleep by polling, as
// asyncio does.
bool Walk::goes_on_outside(const ThreadRows& of, Cause cause, uint8_t kind) const {
  if (cause != Cause::kTimer || kind == kSleepWait || thread_id_ == lead_thread_id_) return false;
  if (ran_before_outside_ns_ > kTimersNs) return false;
  return kind == kPollWait || last_waiter(of) != kNone;
}

// Goes to the GPU where a call waited for it, if what it waited for ended after from_ns.
bool Walk::follow_sync(const ThreadRows& of, int64_t from_ns, Cause cause) {
  const PathSync* sync = sync_since(of, from_ns);
  if (sync == nullptr) return false;
  emit(std::min(sync->to_ns, now_ns_), cause);
  emit(sync->from_ns, Cause::kSync);
  enter_gpu(*sync);
  return true;
}

void Walk::runnable(const ThreadRows& of, std::size_t state) {
  const int64_t from_ns = in_.states.start_ns[state];
  const PathSync* sync = sync_since(of, from_ns);
  if (sync != nullptr && index_.activity_of(*sync) != kNone) {
    // It spun for the GPU, which finished after it had lost its CPU.
    split_by_cpu(of, state, sync->from_ns);
    return enter_gpu(*sync);
  }
  if (follow_message(of, state)) return;
  split_by_cpu(of, state, from_ns);
  if (now_ns_ > from_ns || now_ns_ <= begin_ns_) return;
  follow_wakeup(of, state);
}

// Goes to the thread whose message this one would have slept for, had it had a CPU before.
bool Walk::follow_message(const ThreadRows& of, std::size_t state) {
  const MessageColumns& m = in_.messages;
  const std::size_t found = index_.message_before(of, state, now_ns_, came_ns_);
  if (found == kNone || m.sent_ns[found] < begin_ns_ || m.sender[found] == thread_id_) return false;
  split_by_cpu(of, state, m.sent_ns[found]);
  if (!could_act(index_.thread(m.sender[found]), now_ns_, kRunningState)) return false;
  const int64_t asleep_ns =
      in_.states.start_ns[state] + (m.read_ns[found] - in_.states.end_ns[state]);
  wait_via({m.wait[found], thread_id_, asleep_ns});
  on_thread(m.sender[found]);
  return true;
}

// Whether a thread can have done something at an instant: of the states that are known, up to
// `last`. One that slept itself cannot have: two that woke each other would be followed for ever.
bool Walk::could_act(const ThreadRows* by, int64_t ns, State last) const {
  if (by == nullptr || by->thread.start_ns >= ns || by->thread.end_ns < ns) return false;
  const std::size_t did = index_.state_before(*by, ns);
  return did == kNone || in_.states.end_ns[did] < ns || in_.states.state[did] <= last;
}

// Whether a thread of its process, whose end ended a wait since slept_ns, ended because of that.
bool Walk::was_told_to_end(const ThreadRows& of, int32_t waker, int64_t slept_ns) const {
  const ThreadRows& by = *index_.thread(waker);
  if (by.thread.process_id != of.thread.process_id || slept_ns >= now_ns_) return false;
  const int64_t busy_since_ns = slept_ns - kTimesWaited * (by.thread.end_ns - slept_ns);
  if (busy_since_ns < by.thread.start_ns) return false;
  std::size_t i = index_.state_before(by, now_ns_);
  while (i != kNone && in_.states.state[i] <= kRunnableState) {
    if (in_.states.start_ns[i] <= busy_since_ns) return true;
    i = i == by.states.begin ? kNone : i - 1;
  }
  return false;
}

// Splits the time by who had the CPU that the thread then got, or else the one it had before: it
// waits in the queue of one of them. Without quota it stands in none.
void Walk::split_by_cpu(const ThreadRows& of, std::size_t state, int64_t from_ns) {
  from_ns = std::max(from_ns, begin_ns_);
  if (index_.waits_for_quota(of, state)) return emit(from_ns, Cause::kCgroupQuota);
  const CpuQueues queues(in_, index_, of, state);
  // To wake up takes time also where a CPU is free: whoever is given the GIL waits for it so long.
  const std::size_t wait = index_.wait_ending(of, in_.states.start_ns[state]);
  const bool has_gil = kind_of(wait) == kGilWait && in_.states.waker_kind[state] == kThread;
  while (now_ns_ > from_ns) {
    const CpuPiece piece = queues.last_piece(from_ns, now_ns_);
    const bool wakes_up = has_gil && piece.cause == Cause::kCpuWait;
    emit(piece.start_ns, wakes_up ? Cause::kGil : piece.cause, piece.by);
  }
}

// Goes to the thread whose wakeup made this one runnable, at this instant.
bool Walk::follow_wakeup(const ThreadRows& of, std::size_t state) {
  const StateColumns& s = in_.states;
  const int32_t waker = s.waker_thread_id[state];
  if (waker == 0 || waker == thread_id_) return false;
  if (!could_act(index_.thread(waker), now_ns_, kRunnableState)) return false;
  const bool follows = state > of.states.begin && s.end_ns[state - 1] == s.start_ns[state];
  const bool slept = follows && s.state[state - 1] >= kSleepingState;
  // The wakeup came before it slept: it did not wait for it.
  if (follows && !slept) return false;
  if (slept) {
    const int64_t slept_ns = s.start_ns[state - 1];
    const std::size_t sync = index_.sync_before(of, now_ns_ + 1);
    // The thread of the driver that woke it only says so: the GPU is what was waited for.
    if (sync != kNone && in_.syncs[sync].from_ns >= slept_ns &&
        index_.activity_of(in_.syncs[sync]) != kNone) {
      return false;
    }
    const std::size_t wait = index_.wait_ending(of, s.start_ns[state]);
    const uint8_t kind = kind_of(wait);
    const bool for_holder = wait != kNone && in_.waits.for_holder[wait];
    wait_via({kind, thread_id_, kind == kGilWait ? gil_wait_start(of, wait) : slept_ns,
              kind == kGilWait || for_holder || was_told_to_end(of, waker, slept_ns)});
  }
  on_thread(waker);
  return true;
}

// Since when a thread had waited for the GIL: a wait goes on in slices, each ended by a timer. One
// that a thread ended was the last: it had been given the GIL.
int64_t Walk::gil_wait_start(const ThreadRows& of, std::size_t wait) const {
  const WaitColumns& w = in_.waits;
  const StateColumns& s = in_.states;
  while (wait > of.waits.begin && w.kind[wait - 1] == kGilWait) {
    int64_t ran_ns = 0;
    const std::size_t next = index_.state_before(of, w.end_ns[wait - 1] + 1);
    if (next == kNone || s.waker_kind[next] == kThread) break;
    for (std::size_t i = index_.state_before(of, w.start_ns[wait]);
         i != kNone && i >= of.states.begin && s.start_ns[i] >= w.end_ns[wait - 1]; --i) {
      if (s.state[i] != kRunnableState) ran_ns += s.end_ns[i] - s.start_ns[i];
      if (ran_ns > kAskingNs || i == of.states.begin) break;
    }
    if (ran_ns > kAskingNs) break;
    --wait;
  }
  return w.start_ns[wait];
}

void Walk::waiting(const ThreadRows& of, std::size_t state) {
  const StateColumns& s = in_.states;
  const int64_t from_ns = s.start_ns[state];
  if (follow_sync(of, from_ns, Cause::kSync)) return;
  const bool is_over =
      s.end_ns[state] == now_ns_ && state + 1 < of.states.end && s.start_ns[state + 1] == now_ns_;
  if (is_over && follow_wakeup(of, state + 1)) return;  // it had a CPU at once
  const uint8_t waker = is_over ? s.waker_kind[state + 1] : uint8_t{kNobody};
  const std::size_t wait = index_.wait_before(of, now_ns_);
  const uint8_t kind = kind_of(wait);
  if (kind == kGilWait) {
    const int32_t holder = index_.sibling_at(of.thread, from_ns, now_ns_);
    if (holder != 0) {
      wait_via({kind, thread_id_, gil_wait_start(of, wait), true});
      on_thread(holder);
      return;
    }
  }
  // What ended a wait for a lock is not known before it ends: it may be a timeout.
  const bool is_open_lock = kind == kLockWait && !is_over;
  const uint8_t known = is_open_lock ? uint8_t{kNoWait} : kind;
  const Cause ended_by = cause_of_wait(s.state[state], known, waker);
  const bool goes_on = goes_on_outside(of, ended_by, kind);
  const Cause cause = goes_on ? outside_cause_ : ended_by;
  const bool is_polled = kind == kPollWait && is_from_outside(cause);
  if (goes_on || is_polled) wait_for_outside(of);
  emit(from_ns, cause);
  ran_before_outside_ns_ = goes_on || is_polled ? 0 : kNever;
  outside_cause_ = cause;
}

Cause Walk::cause_of_wait(uint8_t state, uint8_t kind, uint8_t waker) const {
  if (kind == kGilWait) return Cause::kGil;
  if (kind == kGpuWaitKind) return Cause::kGpuWait;
  if (kind == kIoWait) return Cause::kDisk;
  if (kind == kSleepWait) return Cause::kTimer;
  if (waker == kByOutside) return Cause::kOutside;
  // What sleeps uninterruptibly for a while is held up by the OS kernel, as where memory is short.
  if (waker == kByTimer && state != kBlockedState) return Cause::kTimer;
  if (waker == kByDevice && state != kBlockedState && kind != kLockWait)
    return kind == kSocketWait ? Cause::kNetwork : Cause::kDevice;
  if (waker == kByInterrupt) {
    if (kind == kSocketWait) return Cause::kNetwork;
    // Nobody else ends such a wait by an interrupt.
    if (kind == kLockWait) return Cause::kTimer;
    return state == kBlockedState ? Cause::kBlocked : Cause::kInterrupt;
  }
  if (state == kBlockedState) return Cause::kBlocked;
  return kind == kLockWait ? Cause::kLock : Cause::kWaiting;
}

void Walk::step_on_gpu() {
  const PathActivity& activity = in_.activities[activity_];
  emit(activity.start_ns, Cause::kGpu);
  if (now_ns_ <= begin_ns_) return;
  std::size_t before = index_.activity_before(activity_);
  const bool has_launch = activity.launch_thread_id != 0 && activity.launch_ns <= now_ns_;
  // What it waited for on another stream holds it up where that ended later.
  const std::size_t awaited = index_.awaited_by(activity_);
  if (awaited != kNone &&
      (before == kNone || in_.activities[awaited].end_ns > in_.activities[before].end_ns)) {
    before = awaited;
  }
  const int64_t free_ns =
      before == kNone ? begin_ns_ : std::min(in_.activities[before].end_ns, now_ns_);
  const bool has_before = before != kNone && in_.activities[before].start_ns < free_ns;
  if (has_before && !(has_launch && activity.launch_ns >= free_ns)) {
    emit(free_ns, Cause::kGpuQueue);
    activity_ = before;
  } else if (has_launch) {
    emit(activity.launch_ns, Cause::kLaunchLatency);
    on_thread(activity.launch_thread_id);
    activity_ = kNone;
  } else {
    // Nobody is known to have launched it: on with the thread that waited.
    activity_ = kNone;
  }
}

}  // namespace

std::vector<PathPiece> critical_path(const PathInput& input) {
  const PathIndex index(input);
  std::vector<PathPiece> pieces;
  int32_t number = 0;
  for (const PathIteration& iteration : input.iterations) {
    Walk(input, index, number++, &pieces).run(iteration);
  }
  return pieces;
}

}  // namespace rls
