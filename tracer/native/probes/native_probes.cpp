#include "probes/native_probes.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>

namespace rls {
namespace {

const char* const kModes[] = {"session", "multi", "perf"};
// Each takes 120 ms to remove, also when the recorder crashes.
constexpr std::uint32_t kPerfPoints = 20;

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Maps whose size is known only now replace those of the object, which takes them over.
class SizedMap {
 public:
  SizedMap(bpf_map_type type, const char* name, std::uint32_t value_bytes, std::uint32_t entries)
      : fd_(bpf_map_create(type, name, sizeof(std::uint32_t), value_bytes, entries, nullptr)) {
    if (fd_ < 0) Fail(errno, std::string("making map ") + name);
  }
  SizedMap(const SizedMap&) = delete;
  SizedMap& operator=(const SizedMap&) = delete;
  ~SizedMap() { close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// native.bpf.o has the programs of the modes "multi" and "perf"; those of "session" are beside it.
std::string ObjectOf(const std::string& path, const std::string& mode) {
  const std::size_t end = path.rfind(".bpf.o");
  if (mode != "session" || end == std::string::npos) return path;
  return path.substr(0, end) + "_session" + path.substr(end);
}

void ChooseTypes(BpfObject& object, const std::string& mode) {
  const auto set = [&](const char* name, std::uint32_t type) {
    object.SetProgramType(name, BPF_PROG_TYPE_KPROBE, type);
  };
  if (mode == "perf") return;
  if (mode == "session") {
    set("session_call", kAttachUprobeSession);
  } else {
    set("enter_call", kAttachUprobeMulti);
    set("return_call", kAttachUprobeMulti);
  }
  set("release_gil", kAttachUprobeMulti);
  set("take_gil", kAttachUprobeMulti);
}

}  // namespace

NativeProbes::NativeProbes(const std::string& object_path, SharedMaps maps, std::uint32_t sites,
                           const std::string& mode)
    : sites_(sites) {
  std::string reasons;
  for (const char* name : kModes) {
    if (mode != "auto" && mode != name) continue;
    const std::string reason = Try(object_path, maps, name);
    attempts_.emplace_back(name, reason);
    if (reason.empty()) {
      mode_ = name;
      break;
    }
    reasons += std::string(reasons.empty() ? "" : "; ") + name + ": " + reason;
  }
  if (mode_.empty()) Fail(EOPNOTSUPP, reasons.empty() ? "no mode is called " + mode : reasons);
  for (const char* name : {"end_calls_at_exec", "end_calls_at_exit"})
    end_links_.push_back(ProbeLink::Tracepoint(object_->ProgramFd(name)));
}

NativeProbes::~NativeProbes() { Detach(); }

std::string NativeProbes::Try(const std::string& object_path, SharedMaps maps,
                              const std::string& mode) {
  try {
    Open(object_path, maps, mode);
  } catch (const std::system_error& error) {
    return error.what();
  }
  if (mode == "perf") return "";
  const bool session = mode == "session";
  const int error = ProbeMultiSupport(object_->ProgramFd(session ? "session_call" : "enter_call"),
                                      session ? kAttachUprobeSession : kAttachUprobeMulti);
  return error == 0 ? "" : "linking: " + std::generic_category().message(error);
}

void NativeProbes::Open(const std::string& object_path, SharedMaps maps, const std::string& mode) {
  object_ = std::make_unique<BpfObject>(ObjectOf(object_path, mode));
  ChooseTypes(*object_, mode);
  const std::uint32_t entries = std::max(sites_, 1U);
  const SizedMap serving(BPF_MAP_TYPE_ARRAY, "serving_links", sizeof(std::uint32_t), entries);
  const SizedMap counters(BPF_MAP_TYPE_PERCPU_ARRAY, "counters", sizeof(rls_native_counter),
                          entries);
  object_->ReuseMap("serving_links", serving.fd());
  object_->ReuseMap("counters", counters.fd());
  object_->ReuseMap("threads", maps.threads_fd);
  object_->ReuseMap("ring", maps.ring_fd);
  object_->ReuseMap("loss", maps.loss_fd);
  object_->Load();
}

std::uint32_t NativeProbes::limit() const { return mode_ == "perf" ? kPerfPoints : 0; }

std::size_t NativeProbes::UsedPoints() const {
  std::size_t used = gil_points_;
  for (const Group& group : groups_) used += group.points.size();
  return used;
}

void NativeProbes::CheckPoints(const std::vector<ProbePoint>& points) const {
  std::set<std::uint32_t> taken;
  for (const Group& group : groups_)
    for (const ProbePoint& point : group.points) taken.insert(point.site_id);
  for (const ProbePoint& point : points) {
    if (point.site_id >= sites_)
      Fail(ERANGE,
           "site " + std::to_string(point.site_id) + " is not below " + std::to_string(sites_));
    if (!taken.insert(point.site_id).second)
      Fail(EEXIST, "site " + std::to_string(point.site_id) + " is probed already");
  }
  if (limit() != 0 && UsedPoints() + points.size() > limit())
    Fail(ENOSPC, "more than " + std::to_string(limit()) + " probe points on a kernel before 6.6");
}

void NativeProbes::Attach(const std::string& path, const std::vector<ProbePoint>& points) {
  CheckPoints(points);
  if (!points.empty()) groups_.push_back(MakeGroup(path, points));
}

NativeProbes::Group NativeProbes::MakeGroup(const std::string& path,
                                            const std::vector<ProbePoint>& points) {
  if (last_number_ + 1 >= RLS_NATIVE_LINKS) Fail(ENOSPC, "no number is left for another link");
  Group group{path, points, ++last_number_, {}};
  group.links = MakeLinks(path, points, group.number);
  // Only now: what is called while links are being made is of no link yet.
  for (const ProbePoint& point : points) {
    Serve(point.site_id, group.number);
    site_ids_ = std::max(site_ids_, point.site_id + 1);
  }
  return group;
}

std::vector<ProbeLink> NativeProbes::MakeLinks(const std::string& path,
                                               const std::vector<ProbePoint>& points,
                                               std::uint32_t number) const {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> cookies;
  for (const ProbePoint& point : points) {
    offsets.push_back(point.file_offset);
    cookies.push_back(RLS_NATIVE_COOKIE(point.site_id, point.layer, number));
  }
  std::vector<ProbeLink> links;
  if (mode_ == "session") {
    links.push_back(ProbeLink::Multi(object_->ProgramFd("session_call"), path, offsets, cookies,
                                     kAttachUprobeSession, false));
    return links;
  }
  // Returns first: no entry may be seen whose return is not.
  for (const bool at_return : {true, false}) {
    const int program = object_->ProgramFd(at_return ? "return_call" : "enter_call");
    if (mode_ == "multi") {
      links.push_back(
          ProbeLink::Multi(program, path, offsets, cookies, kAttachUprobeMulti, at_return));
      continue;
    }
    for (std::size_t index = 0; index < offsets.size(); ++index)
      links.push_back(ProbeLink::Perf(program, path, offsets[index], cookies[index], at_return));
  }
  return links;
}

void NativeProbes::Serve(std::uint32_t site_id, std::uint32_t number) {
  if (bpf_map_update_elem(object_->MapFd("serving_links"), &site_id, &number, BPF_ANY) != 0)
    Fail(errno, "choosing the link of a site");
}

void NativeProbes::AdvanceEpoch() {
  const std::uint32_t zero = 0;
  ++epoch_;
  if (bpf_map_update_elem(object_->MapFd(".data.native"), &zero, &epoch_, BPF_ANY) != 0)
    Fail(errno, "telling of removed links");
}

void NativeProbes::AttachGil(const std::string& path,
                             const std::vector<std::uint64_t>& release_offsets,
                             const std::vector<std::uint64_t>& take_offsets) {
  const std::size_t points = release_offsets.size() + take_offsets.size();
  if (limit() != 0 && UsedPoints() + points > limit())
    Fail(ENOSPC, "more than " + std::to_string(limit()) + " probe points on a kernel before 6.6");
  std::vector<ProbeLink> links;
  for (const bool at_return : {true, false}) {
    const int program = object_->ProgramFd(at_return ? "take_gil" : "release_gil");
    const std::vector<std::uint64_t>& offsets = at_return ? take_offsets : release_offsets;
    if (mode_ == "perf") {
      for (const std::uint64_t offset : offsets)
        links.push_back(ProbeLink::Perf(program, path, offset, 0, at_return));
    } else if (!offsets.empty()) {
      links.push_back(ProbeLink::Multi(program, path, offsets, {}, kAttachUprobeMulti, at_return));
    }
  }
  for (ProbeLink& link : links) gil_links_.push_back(std::move(link));
  gil_points_ += points;
}

std::vector<ProbeLink> NativeProbes::TakeCallLinks() noexcept {
  std::vector<ProbeLink> links;
  for (Group& group : groups_) {
    for (ProbeLink& link : group.links) links.push_back(std::move(link));
    group.links.clear();
  }
  return links;
}

void NativeProbes::CloseLinks() noexcept {
  std::vector<ProbeLink> links = TakeCallLinks();
  for (ProbeLink& link : gil_links_) links.push_back(std::move(link));
  gil_links_.clear();
  gil_points_ = 0;
  ProbeLink::CloseAll(links);
}

void NativeProbes::Detach() noexcept {
  CloseLinks();
  try {
    for (const Group& group : groups_)
      for (const ProbePoint& point : group.points) Serve(point.site_id, RLS_NATIVE_NO_LINK);
    if (!groups_.empty()) AdvanceEpoch();
  } catch (const std::system_error&) {
    // Nothing is probed any more; at worst calls that were under way are reported as left.
  }
  groups_.clear();
}

void NativeProbes::CloseOpen() {
  CloseLinks();
  // The ends of threads are still followed: one that ends before the walk meets it writes its own.
  object_->RunIterator("close_open_calls");
  ProbeLink::CloseAll(end_links_);
  Detach();
}

}  // namespace rls
