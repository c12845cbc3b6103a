// How the recording of a process ends: it has ended, has become another program, or we stop.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "clock.h"
#include "shim/collector.h"

namespace rls {
namespace {

// Longer than the longest pause between two flushes of a shim.
constexpr std::uint64_t kFetchNs = 600'000'000;
constexpr auto kFetchStep = std::chrono::milliseconds(5);

bool HasEnded(int pidfd, std::uint32_t pid) {
  pollfd event = {pidfd, POLLIN, 0};
  if (pidfd >= 0) return poll(&event, 1, 0) != 0;
  return pid == 0 || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH);
}

}  // namespace

// What CUPTI holds of the processes that go on. Not for long: one that is stopped never answers.
void ShimCollector::FetchGpu() {
  FinishEnded();
  for (Source& source : open_)
    if (source.memory->GpuBuffers() > 0) source.memory->FetchGpu();
  const std::uint64_t end_ns = MonotonicNs() + kFetchNs;
  const auto is_fetched = [](const Source& source) { return source.memory->IsGpuFetched(); };
  while (!std::all_of(open_.begin(), open_.end(), is_fetched) && MonotonicNs() < end_ns) {
    DrainAll();
    FinishEnded();
    std::this_thread::sleep_for(kFetchStep);
  }
}

// The last of a process: it has ended, or we stop.
void ShimCollector::Finish(Source* source, bool has_ended) {
  Drain(source);
  NoteLeft(*source);
  WriteLosses(source);
  std::map<std::uint32_t, std::vector<rls_shim_open>> open;
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < source->memory->slots(); ++slot) {
    rls_shim_open ranges[RLS_SHIM_MAX_DEPTH];
    const std::uint32_t depth = source->memory->Open(slot, ranges);
    if (depth == 0) continue;
    open[slot].assign(ranges, ranges + depth);
    slots.push_back(slot);
  }
  TellOwners(source, slots);
  for (const auto& [slot, ranges] : open)
    Write(ShimBlockKind::kOpen, *source, slot, ranges.data(),
          ranges.size() * sizeof(rls_shim_open));
  const std::uint32_t buffers = source->memory->GpuBuffers();
  if (buffers > 0 && (has_ended || !source->memory->IsGpuFetched()))
    Write(ShimBlockKind::kGpuRest, *source, 0, &buffers, sizeof(buffers));
  if (source->pidfd >= 0) close(source->pidfd);
  source->pidfd = -1;
  if (phases_ != nullptr && has_ended) phases_->Forget(source->number);
  const std::lock_guard<std::mutex> lock(facts_mutex_);
  known_.erase(source->pid);
}

// Nobody reads any more what is in the rings now.
void ShimCollector::NoteLeft(const Source& source) {
  const bool is_limited = !MayWrite(source);
  if (!is_limited && !is_full_) return;
  for (std::uint32_t slot = 0; slot < source.memory->slots(); ++slot)
    if (source.memory->Peek(slot).bytes() > 0)
      NoteRefused(is_limited ? &ShimRefused::limited : &ShimRefused::no_room);
}

// The process has replaced its program: the memory of the old one is nobody's any more.
void ShimCollector::FinishReplaced(std::uint32_t pid) {
  for (std::size_t index = 0; index < open_.size(); ++index) {
    if (open_[index].pid != pid) continue;
    Finish(&open_[index], /*has_ended=*/true);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    return;
  }
}

void ShimCollector::FinishEnded() {
  for (std::size_t index = 0; index < open_.size();) {
    if (!HasEnded(open_[index].pidfd, open_[index].pid)) {
      ++index;
      continue;
    }
    Finish(&open_[index], /*has_ended=*/true);
    if (index + 1 < open_.size()) std::swap(open_[index], open_.back());
    open_.pop_back();
  }
}

}  // namespace rls
