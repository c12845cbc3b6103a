#include "critical_path_index.h"

#include <algorithm>
#include <tuple>

namespace rls {
namespace {

// Finds the rows of each thread, and that each is in order.
template <typename Id, typename Start, typename End>
void each_thread(std::size_t rows, const char* table, Id id, Start start, End end,
                 std::unordered_map<int32_t, ThreadRows>* threads, Rows ThreadRows::*member) {
  for (std::size_t begin = 0; begin < rows;) {
    std::size_t next = begin;
    while (next < rows && id(next) == id(begin)) {
      if (end(next) < start(next) || (next > begin && start(next) < start(next - 1))) {
        throw PathOrderError(table);
      }
      ++next;
    }
    const auto found = threads->find(id(begin));
    if (found != threads->end()) {
      Rows& of = found->second.*member;
      if (of.begin != of.end) throw PathOrderError(table);
      of = {begin, next};
    }
    begin = next;
  }
}

// The last row of [begin, end) for which is_before holds, as it does for all before it.
template <typename Before>
std::size_t last_before(Rows rows, Before is_before) {
  std::size_t low = rows.begin;
  std::size_t high = rows.end;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (is_before(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == rows.begin ? kNone : low - 1;
}

}  // namespace

PathIndex::PathIndex(const PathInput& input) : in_(input) {
  for (const PathThread& thread : in_.threads) {
    threads_[thread.thread_id].thread = thread;
    by_process_[thread.process_id].push_back(thread.thread_id);
  }
  index_rows();
  index_cpus();
  index_others();
  for (std::size_t i = 0; i < in_.activities.size(); ++i) {
    activities_by_end_[in_.activities[i].end_ns].push_back(i);
  }
}

void PathIndex::index_rows() {
  const StateColumns& s = in_.states;
  each_thread(
      s.rows, "thread_state_coded", [&](std::size_t i) { return s.thread_id[i]; },
      [&](std::size_t i) { return s.start_ns[i]; }, [&](std::size_t i) { return s.end_ns[i]; },
      &threads_, &ThreadRows::states);
  const WaitColumns& w = in_.waits;
  each_thread(
      w.rows, "wait_coded", [&](std::size_t i) { return w.thread_id[i]; },
      [&](std::size_t i) { return w.start_ns[i]; }, [&](std::size_t i) { return w.end_ns[i]; },
      &threads_, &ThreadRows::waits);
  const std::vector<PathSync>& c = in_.syncs;
  each_thread(
      c.size(), "cuda_call_coded", [&](std::size_t i) { return c[i].thread_id; },
      [&](std::size_t i) { return c[i].from_ns; }, [&](std::size_t i) { return c[i].to_ns; },
      &threads_, &ThreadRows::syncs);
  const QuotaColumns& q = in_.quotas;
  each_thread(
      q.rows, "cpu_quota_wait", [&](std::size_t i) { return q.thread_id[i]; },
      [&](std::size_t i) { return q.ts_ns[i]; }, [&](std::size_t i) { return q.ts_ns[i]; },
      &threads_, &ThreadRows::quotas);
  const MessageColumns& m = in_.messages;
  each_thread(
      m.rows, "early_message", [&](std::size_t i) { return m.thread_id[i]; },
      [&](std::size_t i) { return m.read_ns[i]; }, [&](std::size_t i) { return m.read_ns[i]; },
      &threads_, &ThreadRows::messages);
}

void PathIndex::index_cpus() {
  const StateColumns& s = in_.states;
  for (std::size_t i = 0; i < s.rows; ++i) {
    if (s.state[i] == 0 && s.cpu[i] >= 0) by_cpu_[s.cpu[i]].push_back(i);
  }
  for (auto& [cpu, rows] : by_cpu_) {
    std::sort(rows.begin(), rows.end(),
              [&](std::size_t a, std::size_t b) { return s.start_ns[a] < s.start_ns[b]; });
  }
}

void PathIndex::index_others() {
  const OtherRunColumns& o = in_.other_runs;
  for (std::size_t begin = 0; begin < o.rows;) {
    std::size_t next = begin;
    while (next < o.rows && o.cpu[next] == o.cpu[begin]) {
      if (o.end_ns[next] < o.start_ns[next] ||
          (next > begin && o.start_ns[next] < o.start_ns[next - 1])) {
        throw PathOrderError("other_run");
      }
      ++next;
    }
    if (!others_.emplace(o.cpu[begin], Rows{begin, next}).second) throw PathOrderError("other_run");
    begin = next;
  }
}

const ThreadRows* PathIndex::thread(int32_t thread_id) const {
  const auto found = threads_.find(thread_id);
  return found == threads_.end() ? nullptr : &found->second;
}

std::size_t PathIndex::state_before(const ThreadRows& of, int64_t ns) const {
  return last_before(of.states, [&](std::size_t i) { return in_.states.start_ns[i] < ns; });
}

std::size_t PathIndex::wait_ending(const ThreadRows& of, int64_t end_ns) const {
  const std::size_t at = wait_before(of, end_ns);
  return at != kNone && in_.waits.end_ns[at] == end_ns ? at : kNone;
}

std::size_t PathIndex::wait_before(const ThreadRows& of, int64_t ns) const {
  const std::size_t at =
      last_before(of.waits, [&](std::size_t i) { return in_.waits.start_ns[i] < ns; });
  return at != kNone && in_.waits.end_ns[at] >= ns ? at : kNone;
}

std::size_t PathIndex::sync_before(const ThreadRows& of, int64_t ns) const {
  return last_before(of.syncs, [&](std::size_t i) { return in_.syncs[i].from_ns < ns; });
}

std::size_t PathIndex::activity_of(const PathSync& sync) const {
  return activity_ending(sync.process_id, sync.device_id, sync.stream_id, sync.from_ns);
}

std::size_t PathIndex::activity_ending(int32_t process_id, int32_t device_id, int64_t stream_id,
                                       int64_t end_ns) const {
  const auto found = activities_by_end_.find(end_ns);
  if (found == activities_by_end_.end()) return kNone;
  std::size_t last = kNone;
  for (const std::size_t i : found->second) {
    const PathActivity& activity = in_.activities[i];
    if (activity.process_id != process_id || activity.device_id != device_id) continue;
    if (stream_id >= 0 && activity.stream_id != stream_id) continue;
    last = i;
  }
  return last;
}

std::size_t PathIndex::awaited_by(std::size_t activity) const {
  const PathActivity& of = in_.activities[activity];
  const auto key = std::make_tuple(of.process_id, of.device_id, of.stream_id, of.start_ns);
  const auto key_of = [](const PathEvent& event) {
    return std::make_tuple(event.process_id, event.device_id, event.to_stream_id, event.to_ns);
  };
  const std::size_t last = last_before({0, in_.events.size()},
                                       [&](std::size_t i) { return key_of(in_.events[i]) <= key; });
  if (last == kNone || key_of(in_.events[last]) != key) return kNone;
  const PathEvent& event = in_.events[last];
  return activity_ending(event.process_id, event.device_id, event.from_stream_id, event.from_ns);
}

std::size_t PathIndex::activity_before(std::size_t activity) const {
  if (activity == 0) return kNone;
  const PathActivity& of = in_.activities[activity];
  const PathActivity& before = in_.activities[activity - 1];
  const bool is_same = before.process_id == of.process_id && before.device_id == of.device_id &&
                       before.stream_id == of.stream_id && of.stream_id >= 0;
  return is_same ? activity - 1 : kNone;
}

int32_t PathIndex::sibling_at(const PathThread& thread, int64_t from_ns, int64_t ns) const {
  const auto found = by_process_.find(thread.process_id);
  if (found == by_process_.end()) return 0;
  int32_t best = 0;
  int64_t best_ns = 0;
  for (const int32_t id : found->second) {
    if (id == thread.thread_id) continue;
    const ThreadRows& of = threads_.at(id);
    const std::size_t i = state_before(of, ns);
    if (i == kNone || in_.states.end_ns[i] < ns || in_.states.state[i] > 1) continue;
    const int64_t overlap_ns = ns - std::max(from_ns, in_.states.start_ns[i]);
    if (overlap_ns > best_ns) {
      best = id;
      best_ns = overlap_ns;
    }
  }
  return best;
}

bool PathIndex::waits_for_quota(const ThreadRows& of, std::size_t state) const {
  const std::size_t last = last_before(
      of.quotas, [&](std::size_t i) { return in_.quotas.ts_ns[i] < in_.states.end_ns[state]; });
  return last != kNone && in_.quotas.ts_ns[last] >= in_.states.start_ns[state];
}

std::size_t PathIndex::message_before(const ThreadRows& of, std::size_t state, int64_t ns,
                                      int64_t read_by_ns) const {
  const StateColumns& s = in_.states;
  const MessageColumns& m = in_.messages;
  const std::size_t then = state + 1;
  if (then >= of.states.end || s.state[then] != 0 || s.start_ns[then] != s.end_ns[state]) {
    return kNone;
  }
  const int64_t read_until_ns = std::min(s.end_ns[then], read_by_ns);
  std::size_t found = kNone;
  for (std::size_t i =
           last_before(of.messages, [&](std::size_t at) { return m.read_ns[at] <= read_until_ns; });
       i != kNone && i >= of.messages.begin && m.read_ns[i] >= s.start_ns[then]; --i) {
    // What it did between getting the CPU and reading it would have been done by then.
    const int64_t asleep_ns = s.start_ns[state] + (m.read_ns[i] - s.start_ns[then]);
    const bool would_have_slept = m.sent_ns[i] >= asleep_ns && m.sent_ns[i] < s.end_ns[state];
    if (would_have_slept && m.sent_ns[i] <= ns &&
        (found == kNone || m.sent_ns[i] > m.sent_ns[found])) {
      found = i;
    }
    if (i == of.messages.begin) break;
  }
  return found;
}

std::size_t PathIndex::message_asked_for(const ThreadRows& of, std::size_t state, int64_t ns,
                                         int64_t read_by_ns) const {
  const MessageColumns& m = in_.messages;
  const int64_t start_ns = in_.states.start_ns[state];
  const int64_t read_until_ns = std::min(in_.states.end_ns[state], read_by_ns);
  std::size_t found = kNone;
  for (std::size_t i =
           last_before(of.messages, [&](std::size_t at) { return m.read_ns[at] <= read_until_ns; });
       i != kNone && i >= of.messages.begin && m.read_ns[i] > start_ns; --i) {
    // None of those before was sent later.
    if (found != kNone && m.read_ns[i] <= m.sent_ns[found]) break;
    if (m.sent_ns[i] >= start_ns && m.sent_ns[i] < ns &&
        (found == kNone || m.sent_ns[i] > m.sent_ns[found])) {
      found = i;
    }
    if (i == of.messages.begin) break;
  }
  return found;
}

Rows PathIndex::others_on(int16_t cpu) const {
  const auto found = others_.find(cpu);
  return found == others_.end() ? Rows{} : found->second;
}

const std::vector<std::size_t>* PathIndex::running_on(int16_t cpu) const {
  const auto found = by_cpu_.find(cpu);
  return found == by_cpu_.end() ? nullptr : &found->second;
}

}  // namespace rls
