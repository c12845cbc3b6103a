#include "replay.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>

namespace rls {
namespace {

// What Linux lets a thread run before the next one of its CPU has a turn.
constexpr double kSliceNs = 2.8e6;
// A thread that wakes up takes the CPU from one that is so much ahead of it.
constexpr double kAheadNs = 2e3;
constexpr double kStuck = -1;

struct Due {
  double ts_ns;
  int64_t order;  // what was planned first comes first
  std::size_t thread;
  int64_t version;
  bool operator>(const Due& other) const {
    return ts_ns != other.ts_ns ? ts_ns > other.ts_ns : order > other.order;
  }
};

struct Thread {
  int64_t item = 0, end = 0;
  double left_ns = 0;     // of the burst
  double virtual_ns = 0;  // what the scheduler orders by
  double since_ns = 0;    // on the CPU since then, as far as it was not charged yet
  int64_t version = 0;    // what was planned for an earlier one is void
  bool is_running = false, is_woken = false;
  int32_t queue = -1;
};

// Threads that wait for a CPU, least run first, and those that have one.
struct Queue {
  std::set<std::pair<double, std::size_t>> waiting;
  std::vector<std::size_t> running;
  std::size_t cpus = 1;
};

class Replay {
 public:
  explicit Replay(const ReplayInput& input)
      : in_(input),
        threads_(input.first_item.size() - 1),
        queues_(input.cpus.size()),
        fired_(input.events, false),
        waiter_(input.events, kNobody),
        blocked_(input.events, kNobody),
        owner_(input.events, kNobody) {
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      queues_[q].cpus = static_cast<std::size_t>(std::max(1, input.cpus[q]));
    }
    for (std::size_t t = 0; t < threads_.size(); ++t) {
      threads_[t].item = input.first_item[t];
      threads_[t].end = input.first_item[t + 1];
      for (int64_t i = threads_[t].item; i < threads_[t].end; ++i) {
        if (kind(i) == Item::kWait) owner_[event(i)] = t;
      }
    }
  }

  double run() {
    for (std::size_t t = 0; t < threads_.size(); ++t) go_on(t);
    settle();
    while (!is_done_ && !due_.empty()) {
      const Due next = due_.top();
      due_.pop();
      Thread& thread = threads_[next.thread];
      if (next.version != thread.version) continue;
      now_ns_ = next.ts_ns;
      if (thread.is_running) {
        at_instant_of(next.thread);
      } else {
        ++thread.item;
        go_on(next.thread);
      }
      settle();
    }
    return is_done_ ? now_ns_ : kStuck;
  }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};

  Item kind(int64_t i) const { return static_cast<Item>(in_.kind[i]); }
  std::size_t event(int64_t i) const { return static_cast<std::size_t>(in_.event[i]); }

  void plan(std::size_t t, double after_ns) {
    due_.push({now_ns_ + after_ns, order_++, t, ++threads_[t].version});
  }

  void charge(Thread& thread) {
    const double ran_ns = now_ns_ - thread.since_ns;
    thread.virtual_ns += ran_ns;
    thread.left_ns = std::max(0.0, thread.left_ns - ran_ns);
    thread.since_ns = now_ns_;
  }

  void plan_burst(std::size_t t) { plan(t, std::min(threads_[t].left_ns, kSliceNs)); }

  void leave_cpu(std::size_t t) {
    Thread& thread = threads_[t];
    if (!thread.is_running) return;
    auto& running = queues_[static_cast<std::size_t>(thread.queue)].running;
    running.erase(std::find(running.begin(), running.end(), t));
    thread.is_running = false;
    ++thread.version;
    changed_.push_back(thread.queue);
  }

  void stand_in_queue(std::size_t t, int32_t q, bool is_woken) {
    Thread& thread = threads_[t];
    Queue& queue = queues_[static_cast<std::size_t>(q)];
    thread.queue = q;
    thread.is_woken = is_woken;
    if (is_woken) {
      // Who slept gets no more than half a slice for it.
      double least_ns = -1;
      for (const std::size_t other : queue.running) {
        const double at_ns = threads_[other].virtual_ns + now_ns_ - threads_[other].since_ns;
        least_ns = least_ns < 0 ? at_ns : std::min(least_ns, at_ns);
      }
      if (!queue.waiting.empty()) {
        const double at_ns = queue.waiting.begin()->first;
        least_ns = least_ns < 0 ? at_ns : std::min(least_ns, at_ns);
      }
      if (least_ns >= 0) thread.virtual_ns = std::max(thread.virtual_ns, least_ns - kSliceNs / 2);
    }
    queue.waiting.emplace(thread.virtual_ns, t);
    changed_.push_back(q);
  }

  // The burst, or the slice, of a running thread is over.
  void at_instant_of(std::size_t t) {
    Thread& thread = threads_[t];
    charge(thread);
    if (thread.left_ns <= 0.5) {
      ++thread.item;
      go_on(t);
      return;
    }
    const Queue& queue = queues_[static_cast<std::size_t>(thread.queue)];
    if (!queue.waiting.empty() && queue.waiting.begin()->first < thread.virtual_ns) {
      const int32_t q = thread.queue;
      leave_cpu(t);
      stand_in_queue(t, q, false);
    } else {
      plan_burst(t);
    }
  }

  // Begins the item that a thread has come to.
  void go_on(std::size_t t) {
    Thread& thread = threads_[t];
    for (; thread.item < thread.end; ++thread.item) {
      const int64_t i = thread.item;
      switch (kind(i)) {
        case Item::kRun:
          return begin_burst(t, i);
        case Item::kFire:
          if (!fire(t, event(i))) return leave_cpu(t);
          break;
        case Item::kWait:
          if (!has_come(t, event(i))) return leave_cpu(t);
          break;
        case Item::kSleep:
          leave_cpu(t);
          return plan(t, in_.length_ns[i] + in_.latency_ns[i]);
      }
    }
    leave_cpu(t);
    ++thread.version;
    if (t == in_.lead) is_done_ = true;
  }

  void begin_burst(std::size_t t, int64_t i) {
    Thread& thread = threads_[t];
    thread.left_ns = in_.length_ns[i];
    if (thread.is_running && thread.queue == in_.queue[i]) {
      thread.since_ns = now_ns_;
      return plan_burst(t);
    }
    const bool was_running = thread.is_running;
    leave_cpu(t);
    stand_in_queue(t, in_.queue[i], !was_running);
  }

  // False: it stays there until the waiter has come.
  bool fire(std::size_t t, std::size_t e) {
    if (fired_[e]) return true;
    const std::size_t waiter = waiter_[e];
    if (waiter != kNobody) {
      fired_[e] = true;
      plan(waiter, in_.latency_ns[threads_[waiter].item]);
      return true;
    }
    const std::size_t owner = owner_[e];
    if (in_.is_rendezvous && owner != kNobody && owner != t &&
        threads_[owner].item < threads_[owner].end) {
      blocked_[e] = t;
      return false;
    }
    fired_[e] = true;
    return true;
  }

  // False: it sleeps until the event.
  bool has_come(std::size_t t, std::size_t e) {
    if (fired_[e]) return true;
    if (blocked_[e] != kNobody) {
      fired_[e] = true;
      plan(blocked_[e], 0);
      return true;
    }
    waiter_[e] = t;
    return false;
  }

  // Gives CPUs that are free, or whose thread is far ahead, to those that wait.
  void settle() {
    while (!changed_.empty()) {
      Queue& queue = queues_[static_cast<std::size_t>(changed_.back())];
      changed_.pop_back();
      while (!queue.waiting.empty() && (queue.running.size() < queue.cpus || make_way(queue))) {
        const std::size_t t = queue.waiting.begin()->second;
        queue.waiting.erase(queue.waiting.begin());
        queue.running.push_back(t);
        threads_[t].is_running = true;
        threads_[t].is_woken = false;
        threads_[t].since_ns = now_ns_;
        plan_burst(t);
      }
    }
  }

  bool make_way(Queue& queue) {
    const auto [virtual_ns, woken] = *queue.waiting.begin();
    if (!threads_[woken].is_woken) return false;
    std::size_t most = kNobody;
    for (const std::size_t t : queue.running) {
      charge(threads_[t]);
      if (most == kNobody || threads_[t].virtual_ns > threads_[most].virtual_ns) most = t;
    }
    if (threads_[most].virtual_ns - virtual_ns <= kAheadNs) return false;
    queue.running.erase(std::find(queue.running.begin(), queue.running.end(), most));
    threads_[most].is_running = false;
    threads_[most].is_woken = false;
    ++threads_[most].version;
    queue.waiting.emplace(threads_[most].virtual_ns, most);
    return true;
  }

  const ReplayInput& in_;
  std::vector<Thread> threads_;
  std::vector<Queue> queues_;
  std::vector<bool> fired_;
  std::vector<std::size_t> waiter_, blocked_, owner_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<int32_t> changed_;
  double now_ns_ = 0;
  int64_t order_ = 0;
  bool is_done_ = false;
};

}  // namespace

double replay(const ReplayInput& input) { return Replay(input).run(); }

}  // namespace rls
