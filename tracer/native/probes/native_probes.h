// Exact calls of probed functions: loads bpf/native.bpf.c in the best way this kernel takes, and
// puts its programs on function entries of files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bpf/native_state.h"
#include "capture/bpf_object.h"
#include "probes/probe_link.h"

namespace rls {

// One function entry of a file.
struct ProbePoint {
  std::uint64_t file_offset;
  std::uint32_t site_id;
  std::uint8_t layer;
};

struct NativeCounts {
  std::uint64_t hits = 0;
  std::uint64_t time_ns = 0;
};

class NativeProbes {
 public:
  // The maps of the sched programs that these write into, and that tell which threads are traced.
  struct SharedMaps {
    int threads_fd;
    int ring_fd;
    int loss_fd;
  };
  using Attempts = std::vector<std::pair<std::string, std::string>>;

  // `sites`: site ids are below it. `mode`: "session", "multi", "perf", or "auto" for the first of
  // them that works. Throws std::system_error where none does.
  NativeProbes(const std::string& object_path, SharedMaps maps, std::uint32_t sites,
               const std::string& mode);
  NativeProbes(const NativeProbes&) = delete;
  NativeProbes& operator=(const NativeProbes&) = delete;
  ~NativeProbes();

  // All of the points or none: throws std::system_error. `path` is opened as it is given.
  void Attach(const std::string& path, const std::vector<ProbePoint>& points);
  // Takes the probes of these sites away; those that have none are left alone.
  void Drop(const std::vector<std::uint32_t>& site_ids);
  // The functions that give the GIL away, and those that take it back.
  void AttachGil(const std::string& path, const std::vector<std::uint64_t>& release_offsets,
                 const std::vector<std::uint64_t>& take_offsets);
  // Takes all probes away: when it returns, the code of every process is as it was.
  void Detach() noexcept;
  // Detaches, then writes the calls that are under way into the ring.
  void CloseOpen();

  // Of every site that has been called.
  std::map<std::uint32_t, NativeCounts> Counters() const;
  // Calls that are not in the trace, by reason.
  rls_native_losses Losses() const;
  std::uint64_t MissedRuns() const { return object_->MissedRuns(); }

  const std::string& mode() const { return mode_; }
  // The ways that were tried, each with why it did not work; empty for the one taken.
  const Attempts& attempts() const { return attempts_; }
  // How many points there can be at once; 0: no limit.
  std::uint32_t limit() const;

 private:
  // Points of one file that are attached and detached together.
  struct Group {
    std::string path;
    std::vector<ProbePoint> points;
    std::uint32_t number = 0;  // as in the cookies
    std::vector<ProbeLink> links;
  };

  void Open(const std::string& object_path, SharedMaps maps, const std::string& mode);
  std::string Try(const std::string& object_path, SharedMaps maps, const std::string& mode);
  void CheckPoints(const std::vector<ProbePoint>& points) const;
  // Attached and serving its sites.
  Group MakeGroup(const std::string& path, const std::vector<ProbePoint>& points);
  std::vector<ProbeLink> MakeLinks(const std::string& path, const std::vector<ProbePoint>& points,
                                   std::uint32_t number) const;
  void Serve(std::uint32_t site_id, std::uint32_t number);
  // On a point that no link serves any more. When it has been closed, no thread is left that met an
  // entry before then, and is still on its way from one probe there to the next: such a one would
  // miss an old link that is taken away, having met the new one too early or not at all.
  ProbeLink MakeBarrier(const Group& group, const ProbePoint& gone) const;
  // What has been removed is gone: no call that it saw begin will be seen to end.
  void AdvanceEpoch();
  std::size_t UsedPoints() const;
  std::vector<ProbeLink> TakeCallLinks() noexcept;
  void CloseLinks() noexcept;

  std::uint32_t sites_;
  std::uint32_t site_ids_ = 0;  // those that have ever been attached are below it
  std::string mode_;
  Attempts attempts_;
  std::unique_ptr<BpfObject> object_;
  std::vector<Group> groups_;
  std::vector<ProbeLink> gil_links_;
  std::vector<ProbeLink> end_links_;  // ends of threads and programs
  std::size_t gil_points_ = 0;
  std::uint32_t last_number_ = RLS_NATIVE_NO_LINK;
  std::uint32_t epoch_ = 0;
};

}  // namespace rls
