// Taking the probes of calls away for a while, and bringing them back.
#include <bpf/bpf.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>

#include "clock.h"
#include "probes/native_probes.h"

namespace rls {
namespace {

// A pause is told to the programs this long before it begins or ends, so that all of them know.
constexpr std::uint64_t kNoticeNs = 1000000;
constexpr std::uint64_t kNotKnownYet = std::numeric_limits<std::uint64_t>::max();

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

void NativeProbes::TellPause(std::uint64_t start_ns, std::uint64_t end_ns) {
  const std::uint32_t zero = 0;
  const rls_pause pause = {start_ns, end_ns};
  if (bpf_map_update_elem(object_->MapFd(".data.pause"), &zero, &pause, BPF_ANY) != 0)
    Fail(errno, "telling when calls are not recorded");
}

void NativeProbes::Suspend() {
  if (pause_) return;
  if (limit() != 0) Fail(EOPNOTSUPP, "taking single probes away takes seconds");
  Pause pause;
  pause.start_ns = MonotonicNs() + kNoticeNs;
  // One number at a time: what the programs may read in between means no pause.
  TellPause(pause.start_ns, last_pause_end_ns_);
  TellPause(pause.start_ns, kNotKnownYet);
  pause_ = pause;
  std::this_thread::sleep_for(std::chrono::nanoseconds(kNoticeNs));
  // From here on a call whose thread ends has an end that nobody saw.
  for (const Group& group : groups_)
    for (const ProbePoint& point : group.points) Serve(point.site_id, RLS_NATIVE_NO_LINK);
  std::vector<ProbeLink> links = TakeCallLinks();
  ProbeLink::CloseAll(links);
  AdvanceEpoch();
  pause_->away_ns = MonotonicNs();
}

std::optional<NativeProbes::Pause> NativeProbes::Resume() {
  if (!pause_) return std::nullopt;
  pause_->back_ns = MonotonicNs();
  if (last_number_ + 1 >= RLS_NATIVE_LINKS) Fail(ENOSPC, "no number is left for another link");
  // One for all: a return that is told apart by it belongs to a call from before the pause.
  ++last_number_;
  for (Group& group : groups_) {
    group.number = last_number_;
    group.links = MakeLinks(group.path, group.points, group.number);
    for (const ProbePoint& point : group.points) Serve(point.site_id, group.number);
  }
  pause_->end_ns = last_pause_end_ns_ = MonotonicNs() + kNoticeNs;
  TellPause(pause_->start_ns, pause_->end_ns);
  std::this_thread::sleep_for(std::chrono::nanoseconds(kNoticeNs));
  const std::optional<Pause> pause = pause_;
  pause_.reset();
  return pause;
}

}  // namespace rls
