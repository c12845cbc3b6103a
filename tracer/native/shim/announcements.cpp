#include "shim/announcements.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "clock.h"
#include "shim/foreign_fd.h"

namespace rls {
namespace {

constexpr int kBacklog = 4096;
// Connections taken at a time.
constexpr int kMaxAccepts = 256;
constexpr std::size_t kMaxWaiting = 256;
// Descriptors that are left for all else.
constexpr rlim_t kSpareFds = 32;
// The kernel has the memfd microseconds after the connection, and tells of a new process a tenth of
// a second later at most, unless all CPUs are taken.
constexpr std::uint64_t kPatienceNs = 2'000'000'000;
// A stranger that connects again and again is not looked at each time.
constexpr std::uint64_t kRefusedNs = 100'000'000;
constexpr std::size_t kMaxRefused = 4096;

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
      CloseForeign(fd);
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

// A descriptor of those that all else needs.
bool IsScarce(int fd) {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         static_cast<rlim_t>(fd) + kSpareFds >= limit.rlim_cur;
}

// The OS kernel vouches for it; the pid is that of our pid namespace, 0: it is in none of ours.
ucred CredentialsOf(int connection) {
  ucred credentials = {};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return {};
  return credentials;
}

}  // namespace

ShimAnnouncements::ShimAnnouncements(const std::string& session, TracedProcesses* traced)
    : traced_(traced), socket_(Listen(session)) {}

ShimAnnouncements::~ShimAnnouncements() {
  for (const Connection& connection : waiting_) close(connection.fd);
  close(socket_);
}

void ShimAnnouncements::Close() { shutdown(socket_, SHUT_RD); }

void ShimAnnouncements::Accept(std::vector<Announcement>* taken) {
  for (int count = 0; count < kMaxAccepts; ++count) {
    const int fd = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    is_empty_ = fd < 0;
    if (is_empty_) return;
    const ucred peer = CredentialsOf(fd);
    Connection connection = {fd, static_cast<std::uint32_t>(peer.pid),
                             static_cast<std::uint32_t>(peer.uid), MonotonicNs(), false};
    if (IsScarce(fd)) {
      Refuse(connection, &too_many_);
    } else if (Advance(&connection, connection.since_ns, taken) == Step::kWait) {
      MakeRoom();
      waiting_.push_back(connection);
    }
  }
}

// Whoever has most connections loses its oldest one: nobody keeps another user from being heard.
void ShimAnnouncements::MakeRoom() {
  if (waiting_.size() < kMaxWaiting) return;
  std::map<std::uint32_t, std::size_t> by_user;
  for (const Connection& connection : waiting_) ++by_user[connection.uid];
  const auto most = std::max_element(
      by_user.begin(), by_user.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  const auto oldest =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const Connection& waiting) { return waiting.uid == most->first; });
  Refuse(*oldest, oldest->is_heard ? &too_many_ : &strangers_);
  waiting_.erase(oldest);
}

void ShimAnnouncements::Refuse(const Connection& connection, std::uint64_t* count) {
  close(connection.fd);
  ++*count;
}

Belongs ShimAnnouncements::Judge(const Connection& connection, std::uint64_t now_ns) {
  if (traced_ == nullptr) return Belongs::kYes;
  const auto refused = refused_.find(connection.pid);
  if (refused != refused_.end() && now_ns < refused->second) return Belongs::kNo;
  const Belongs verdict = traced_->Judge(connection.pid, connection.uid, connection.since_ns);
  if (verdict != Belongs::kNo) return verdict;
  if (refused_.size() >= kMaxRefused) refused_.clear();
  refused_[connection.pid] = now_ns + kRefusedNs;
  return verdict;
}

ShimAnnouncements::Step ShimAnnouncements::Advance(Connection* connection, std::uint64_t now_ns,
                                                   std::vector<Announcement>* taken) {
  const bool is_late = now_ns - connection->since_ns > kPatienceNs;
  if (!connection->is_heard) {
    const Belongs verdict = Judge(*connection, now_ns);
    if (verdict == Belongs::kNotKnownYet && !is_late) return Step::kWait;
    if (verdict != Belongs::kYes) {
      Refuse(*connection, &strangers_);
      return Step::kDone;
    }
    connection->is_heard = true;
  }
  int memfd = -1;
  const bool is_done = IsClosingTooMany() || Receive(connection->fd, &memfd);
  if (memfd >= 0) taken->push_back({memfd, connection->pid});
  if (!is_done && !is_late) return Step::kWait;
  close(connection->fd);
  return Step::kDone;
}

std::vector<Announcement> ShimAnnouncements::Take() {
  std::vector<Announcement> taken;
  const std::uint64_t now_ns = MonotonicNs();
  std::vector<Connection> waiting;
  for (Connection& connection : waiting_)
    if (Advance(&connection, now_ns, &taken) == Step::kWait) waiting.push_back(connection);
  waiting_ = std::move(waiting);
  Accept(&taken);
  return taken;
}

}  // namespace rls
