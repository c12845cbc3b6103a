// Where processes hand over the memory of their shims: an abstract unix socket.
//
// A process connects, sends its memfd and closes, and need not wait for us: from the connection on
// the kernel keeps what it sends, also if the process is killed or we do not get a CPU. Thousands
// of connections can wait so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rls {

struct Announcement {
  int memfd;  // the taker's
  std::uint32_t pid;
};

class ShimAnnouncements {
 public:
  // Throws std::system_error.
  explicit ShimAnnouncements(const std::string& session);
  ShimAnnouncements(const ShimAnnouncements&) = delete;
  ShimAnnouncements& operator=(const ShimAnnouncements&) = delete;
  ~ShimAnnouncements();

  // Readable where somebody has connected.
  int fd() const { return socket_; }
  // Whether somebody has connected and not yet sent.
  bool has_waiting() const { return !waiting_.empty(); }
  // What has come, at most so much that a flood of it does not keep us from all else.
  std::vector<Announcement> Take();

 private:
  struct Connection {
    int fd;
    std::uint32_t pid;
    std::uint64_t since_ns;
  };

  void Accept();

  int socket_ = -1;
  std::vector<Connection> waiting_;
};

}  // namespace rls
