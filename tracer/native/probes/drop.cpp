// Taking the probes of some sites away, while those of the other sites of their files stay.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "probes/native_probes.h"

namespace rls {

ProbeLink NativeProbes::MakeBarrier(const Group& group, const ProbePoint& gone) const {
  const bool session = mode_ == "session";
  return ProbeLink::Multi(object_->ProgramFd(session ? "session_call" : "enter_call"), group.path,
                          {gone.file_offset},
                          {RLS_NATIVE_COOKIE(gone.site_id, gone.layer, group.number)},
                          session ? kAttachUprobeSession : kAttachUprobeMulti, false);
}

void NativeProbes::Drop(const std::vector<std::uint32_t>& site_ids) {
  const std::set<std::uint32_t> dropped(site_ids.begin(), site_ids.end());
  std::vector<ProbeLink> barriers;
  std::vector<ProbeLink> old;
  bool removed = false;
  for (Group& group : groups_) {
    std::vector<ProbePoint> gone;
    std::vector<ProbePoint> kept;
    std::partition_copy(group.points.begin(), group.points.end(), std::back_inserter(gone),
                        std::back_inserter(kept),
                        [&](const ProbePoint& point) { return dropped.count(point.site_id) != 0; });
    if (gone.empty()) continue;
    // At once, while making the link that replaces this one takes its time.
    for (const ProbePoint& point : gone) Serve(point.site_id, RLS_NATIVE_NO_LINK);
    Group fresh{group.path, kept, RLS_NATIVE_NO_LINK, {}};
    if (!kept.empty()) {
      // The kernels that take single probes alone let none go while a thread is among them.
      if (barriers.empty() && limit() == 0) barriers.push_back(MakeBarrier(group, gone.front()));
      // The new link stands before the old one falls: no call of the kept sites is missed.
      fresh = MakeGroup(group.path, kept);
    }
    std::move(group.links.begin(), group.links.end(), std::back_inserter(old));
    group = std::move(fresh);
    removed = true;
  }
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(),
                               [](const Group& group) { return group.points.empty(); }),
                groups_.end());
  ProbeLink::CloseAll(barriers);
  ProbeLink::CloseAll(old);
  if (removed) AdvanceEpoch();
}

}  // namespace rls
