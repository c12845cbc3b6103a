// What a recording lacks of the shims: what they count themselves, and what we did not take.
#include <cstring>

#include "clock.h"
#include "shim/collector.h"

namespace rls {
namespace {

constexpr std::size_t kMaxBudgets = 65536;

bool Differ(const ShimCounters& left, const ShimCounters& right) {
  return std::memcmp(&left, &right, sizeof(left)) != 0;
}

}  // namespace

void ShimCollector::WriteLosses(Source* source, bool is_before_us) {
  const std::uint32_t slots = source->memory->slots();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const ShimCounters now = source->memory->Counters(slot);
    if (slot < source->counters.size() && !Differ(now, source->counters[slot])) continue;
    if (!Write(ShimBlockKind::kCounters, *source, slot, &now, sizeof(now))) continue;
    if (slot >= source->counters.size()) source->counters.resize(slot + 1);
    if (!is_before_us) lost_count_ += now.dropped_events - source->counters[slot].dropped_events;
    source->counters[slot] = now;
  }
  const ShimLost lost = source->memory->Lost();
  if (std::memcmp(&lost, &source->lost, sizeof(lost)) == 0) return;
  if (!Write(ShimBlockKind::kLost, *source, 0, &lost, sizeof(lost))) return;
  if (!is_before_us) lost_count_ += lost.events - source->lost.events;
  source->lost = lost;
}

void ShimCollector::NoteRefused(std::uint64_t ShimRefused::*what) {
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  if (refused_.first_ns == 0) refused_.first_ns = MonotonicNs();
  ++(refused_.*what);
  ++lost_count_;
}

ShimRefused ShimCollector::refused() const {
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  return refused_;
}

void ShimCollector::WriteRefused() {
  {
    const std::lock_guard<std::mutex> lock(facts_mutex_);
    refused_.strangers = announcements_.strangers();
    refused_.memories += announcements_.too_many() - too_many_;
    too_many_ = announcements_.too_many();
  }
  const ShimRefused now = refused();
  if (std::memcmp(&now, &written_refused_, sizeof(now)) == 0) return;
  if (writer_.Write(ShimBlockKind::kRefused, 0, 0, &now, sizeof(now))) written_refused_ = now;
}

// Of those that may write as much as any other.
void ShimCollector::ForgetBudgets() {
  const std::uint64_t now_ns = MonotonicNs();
  for (auto entry = budgets_.begin(); entry != budgets_.end();) {
    Budgets& left = entry->second;
    const bool is_full = left.bytes.IsFull(now_ns) && left.memories.IsFull(now_ns);
    entry = is_full || budgets_.size() > kMaxBudgets ? budgets_.erase(entry) : std::next(entry);
  }
}

}  // namespace rls
