// A BPF program on probe points of one file: attached while the object lives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rls {

// bpf_attach_type of <linux/bpf.h>; 48 since Linux 6.6, 57 since 6.13.
constexpr std::uint32_t kAttachUprobeMulti = 48;
constexpr std::uint32_t kAttachUprobeSession = 57;

class ProbeLink {
 public:
  ProbeLink() = default;
  ProbeLink(ProbeLink&& other) noexcept;
  ProbeLink& operator=(ProbeLink&& other) noexcept;
  ~ProbeLink();

  // One link for all points. Throws std::system_error, as the others do.
  static ProbeLink Multi(int program_fd, const std::string& path,
                         const std::vector<std::uint64_t>& offsets,
                         const std::vector<std::uint64_t>& cookies, std::uint32_t attach_type,
                         bool at_return);
  // One point, by way of a perf event: for kernels older than 6.6.
  static ProbeLink Perf(int program_fd, const std::string& path, std::uint64_t offset,
                        std::uint64_t cookie, bool at_return);
  // A typed tracepoint, which the program itself names.
  static ProbeLink Tracepoint(int program_fd);

  // Closes many at once: each waits for the OS kernel, and the waits overlap.
  static void CloseAll(std::vector<ProbeLink>& links) noexcept;

 private:
  ProbeLink(int link_fd, int event_fd) : link_fd_(link_fd), event_fd_(event_fd) {}
  void Close() noexcept;

  int link_fd_ = -1;
  int event_fd_ = -1;
};

// Whether this kernel links programs to many points at once; an errno, 0 if it does.
int ProbeMultiSupport(int program_fd, std::uint32_t attach_type);

}  // namespace rls
