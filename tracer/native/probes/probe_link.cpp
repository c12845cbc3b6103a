#include "probes/probe_link.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "perf_right.h"

namespace rls {
namespace {

constexpr std::uint32_t kMultiAtReturn = 1;  // BPF_F_UPROBE_MULTI_RETURN

// link_create of union bpf_attr as Linux 6.6 has it: the headers of libbpf 1.1 do not know it.
struct MultiAttributes {
  std::uint32_t program_fd;
  std::uint32_t target_fd;
  std::uint32_t attach_type;
  std::uint32_t link_flags;
  std::uint64_t path;
  std::uint64_t offsets;
  std::uint64_t semaphore_offsets;
  std::uint64_t cookies;
  std::uint32_t count;
  std::uint32_t flags;
  std::uint32_t pid;  // 0: all processes
  std::uint32_t reserved;
};

std::uint64_t AddressOf(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

[[noreturn]] void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int CreateMulti(const MultiAttributes& attributes) {
  return static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof(attributes)));
}

// A number of the uprobe event source: its type, or the bit of its config that means "at return".
std::uint32_t EventSourceNumber(const char* file, std::size_t skipped) {
  std::ifstream input(std::string("/sys/bus/event_source/devices/uprobe/") + file);
  std::string word;
  if (!(input >> word) || word.size() <= skipped)
    throw std::system_error(ENODEV, std::generic_category(), "this kernel has no uprobe events");
  return static_cast<std::uint32_t>(std::stoul(word.substr(skipped)));
}

}  // namespace

ProbeLink::ProbeLink(ProbeLink&& other) noexcept
    : link_fd_(std::exchange(other.link_fd_, -1)), event_fd_(std::exchange(other.event_fd_, -1)) {}

ProbeLink& ProbeLink::operator=(ProbeLink&& other) noexcept {
  std::swap(link_fd_, other.link_fd_);
  std::swap(event_fd_, other.event_fd_);
  return *this;
}

ProbeLink::~ProbeLink() { Close(); }

void ProbeLink::Close() noexcept {
  if (link_fd_ >= 0) close(link_fd_);
  if (event_fd_ >= 0) close(event_fd_);
  link_fd_ = event_fd_ = -1;
}

ProbeLink ProbeLink::Multi(int program_fd, const std::string& path,
                           const std::vector<std::uint64_t>& offsets,
                           const std::vector<std::uint64_t>& cookies, std::uint32_t attach_type,
                           bool at_return) {
  MultiAttributes attributes = {};
  attributes.program_fd = static_cast<std::uint32_t>(program_fd);
  attributes.attach_type = attach_type;
  attributes.path = AddressOf(path.c_str());
  attributes.offsets = AddressOf(offsets.data());
  attributes.cookies = cookies.empty() ? 0 : AddressOf(cookies.data());
  attributes.count = static_cast<std::uint32_t>(offsets.size());
  attributes.flags = at_return ? kMultiAtReturn : 0;
  const int fd = CreateMulti(attributes);
  if (fd < 0) Fail("probing " + std::to_string(offsets.size()) + " points of " + path);
  return ProbeLink(fd, -1);
}

ProbeLink ProbeLink::Perf(int program_fd, const std::string& path, std::uint64_t offset,
                          std::uint64_t cookie, bool at_return) {
  perf_event_attr attributes = {};
  attributes.size = sizeof(attributes);
  attributes.type = EventSourceNumber("type", 0);
  // "config:0"
  if (at_return) attributes.config = 1ULL << EventSourceNumber("format/retprobe", 7);
  attributes.uprobe_path = AddressOf(path.c_str());
  attributes.probe_offset = offset;
  const PerfRight right;
  // One CPU has to be named for all processes; the program runs on every one.
  ProbeLink link(-1, static_cast<int>(syscall(SYS_perf_event_open, &attributes, -1, 0, -1,
                                              PERF_FLAG_FD_CLOEXEC)));
  if (link.event_fd_ < 0) Fail("probing a point of " + path);
  bpf_link_create_opts options = {};
  options.sz = sizeof(options);
  options.perf_event.bpf_cookie = cookie;
  link.link_fd_ = bpf_link_create(program_fd, link.event_fd_, BPF_PERF_EVENT, &options);
  if (link.link_fd_ < 0) Fail("probing a point of " + path);
  return link;
}

ProbeLink ProbeLink::Tracepoint(int program_fd) {
  const int fd = bpf_raw_tracepoint_open(nullptr, program_fd);
  if (fd < 0) Fail("following the ends of threads");
  return ProbeLink(fd, -1);
}

void ProbeLink::CloseAll(std::vector<ProbeLink>& links) noexcept {
  std::vector<std::thread> closers;
  while (links.size() > 1) {
    ProbeLink last = std::move(links.back());
    links.pop_back();
    try {
      closers.emplace_back([link = std::move(last)]() mutable { link.Close(); });
    } catch (const std::system_error&) {
      // No thread to be had: then one after the other.
    }
  }
  links.clear();
  for (std::thread& closer : closers) closer.join();
}

int ProbeMultiSupport(int program_fd, std::uint32_t attach_type) {
  // A folder cannot be probed, and only a kernel that knows this kind of link looks.
  const std::uint64_t offset = 0;
  MultiAttributes attributes = {};
  attributes.program_fd = static_cast<std::uint32_t>(program_fd);
  attributes.attach_type = attach_type;
  attributes.path = AddressOf("/");
  attributes.offsets = AddressOf(&offset);
  attributes.count = 1;
  const int fd = CreateMulti(attributes);
  if (fd >= 0) close(fd);
  return fd >= 0 || errno == EBADF ? 0 : errno;
}

}  // namespace rls
