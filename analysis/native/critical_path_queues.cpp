#include "critical_path_queues.h"

#include <algorithm>

namespace rls {
namespace {

constexpr uint8_t kRunning = 0;
constexpr uint8_t kRunnable = 1;
// Rows that are looked at for one in which the thread ran: it does so in every few.
constexpr std::size_t kLook = 64;

}  // namespace

CpuQueues::CpuQueues(const PathInput& input, const PathIndex& index, const ThreadRows& of,
                     std::size_t state)
    : in_(input), index_(index), thread_id_(of.thread.thread_id) {
  const StateColumns& s = in_.states;
  const std::size_t last = std::min(of.states.end, state + kLook);
  std::size_t then = state + 1;
  while (then < last && s.state[then] == kRunnable) ++then;
  if (then < last && s.state[then] == kRunning) add_cpu(s.cpu[then]);
  const std::size_t first = state - std::min(state - of.states.begin, kLook);
  std::size_t before = state;
  while (before > first && s.state[before] != kRunning) --before;
  if (s.state[before] == kRunning) add_cpu(s.cpu[before]);
}

void CpuQueues::add_cpu(int16_t cpu) {
  const std::vector<std::size_t>* traced = index_.running_on(cpu);
  if (traced != nullptr) stays_[count_++] = {traced, {}};
  const Rows others = index_.others_on(cpu);
  if (others.begin != others.end) stays_[count_++] = {nullptr, others};
}

CpuPiece CpuQueues::last_piece(int64_t from_ns, int64_t now_ns) const {
  for (std::size_t at = 0; at < count_; ++at) {
    Stay stay{};
    if (!last_stay(stays_[at], from_ns, now_ns, &stay)) continue;
    if (stay.end_ns >= now_ns) {
      return {std::max(stay.start_ns, from_ns), stay.piece.cause, stay.piece.by};
    }
    from_ns = std::max(from_ns, stay.end_ns);
  }
  return {from_ns, Cause::kCpuWait, 0};
}

// The last one that began before now, and ended after from_ns.
bool CpuQueues::last_stay(const Stays& stays, int64_t from_ns, int64_t now_ns, Stay* stay) const {
  return stays.traced != nullptr ? last_traced(*stays.traced, from_ns, now_ns, stay)
                                 : last_other(stays.others, now_ns, stay);
}

// A CPU that the thread has to itself has no other stays: the first that is over ends the search.
bool CpuQueues::last_traced(const std::vector<std::size_t>& rows, int64_t from_ns, int64_t now_ns,
                            Stay* stay) const {
  const StateColumns& s = in_.states;
  auto next = std::lower_bound(rows.begin(), rows.end(), now_ns,
                               [&](std::size_t i, int64_t ns) { return s.start_ns[i] < ns; });
  while (next != rows.begin()) {
    const std::size_t ran = *--next;
    if (s.end_ns[ran] <= from_ns) return false;
    if (s.thread_id[ran] == thread_id_) continue;
    *stay = {s.start_ns[ran], s.end_ns[ran], {0, Cause::kCpuTaken, s.thread_id[ran]}};
    return true;
  }
  return false;
}

bool CpuQueues::last_other(Rows rows, int64_t now_ns, Stay* stay) const {
  const OtherRunColumns& o = in_.other_runs;
  const int64_t* const begin = o.start_ns + rows.begin;
  const int64_t* const next = std::lower_bound(begin, o.start_ns + rows.end, now_ns);
  if (next == begin) return false;
  const auto ran = static_cast<std::size_t>(next - 1 - o.start_ns);
  *stay = {o.start_ns[ran], o.end_ns[ran], {0, Cause::kCpuTakenByOther, o.program_id[ran]}};
  return true;
}

}  // namespace rls
