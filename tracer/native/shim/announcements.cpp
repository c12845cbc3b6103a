#include "shim/announcements.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "clock.h"

namespace rls {
namespace {

constexpr int kBacklog = 4096;
// Connections taken at a time.
constexpr int kMaxAccepts = 256;
// The kernel has the memfd microseconds after the connection; who sends none is a stranger.
constexpr std::uint64_t kPatienceNs = 1'000'000'000;

int Listen(const std::string& session) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "opening a unix socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  session.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + session.size());
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    throw std::system_error(error, std::generic_category(), "listening for shims");
  }
  return fd;
}

// Whoever sends more than one descriptor must not fill our table with them.
void TakeFirst(const cmsghdr& item, int* first) {
  const std::size_t count = (item.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t index = 0; index < count; ++index) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(&item) + index * sizeof(int), sizeof(int));
    if (*first < 0)
      *first = fd;
    else
      close(fd);
  }
}

// True: all has come that will come; memfd is -1 where that was nothing of use.
bool Receive(int connection, int* memfd) {
  std::uint64_t body = 0;
  iovec part = {&body, sizeof(body)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) < 0) return errno != EAGAIN;
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS) TakeFirst(*item, memfd);
  }
  return true;
}

// The OS kernel vouches for it, in our pid namespace.
std::uint32_t PidOf(int connection) {
  ucred credentials = {};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return 0;
  return static_cast<std::uint32_t>(credentials.pid);
}

}  // namespace

ShimAnnouncements::ShimAnnouncements(const std::string& session) : socket_(Listen(session)) {}

ShimAnnouncements::~ShimAnnouncements() {
  for (const Connection& connection : waiting_) close(connection.fd);
  close(socket_);
}

void ShimAnnouncements::Accept() {
  for (int count = 0; count < kMaxAccepts && waiting_.size() < kMaxAccepts; ++count) {
    const int fd = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    waiting_.push_back({fd, PidOf(fd), MonotonicNs()});
  }
}

std::vector<Announcement> ShimAnnouncements::Take() {
  std::vector<Announcement> taken;
  Accept();
  const std::uint64_t now_ns = MonotonicNs();
  std::vector<Connection> waiting;
  for (const Connection& connection : waiting_) {
    int memfd = -1;
    const bool is_done = Receive(connection.fd, &memfd);
    if (memfd >= 0) taken.push_back({memfd, connection.pid});
    if (is_done || now_ns - connection.since_ns > kPatienceNs)
      close(connection.fd);
    else
      waiting.push_back(connection);
  }
  waiting_ = waiting;
  return taken;
}

}  // namespace rls
