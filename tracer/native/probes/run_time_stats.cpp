#include "probes/run_time_stats.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>

namespace rls {
namespace {

std::atomic<int> server{-1};

// Sends an errno, and a descriptor where there is one.
bool Answer(int socket, std::int32_t error, int fd) {
  iovec part = {&error, sizeof(error)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &fd, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(error));
}

int Ask(int socket) {
  const char byte = 0;
  std::int32_t error = 0;
  iovec part = {&error, sizeof(error)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = send(socket, &byte, 1, MSG_NOSIGNAL);
  if (got == 1) do {
      got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
  const cmsghdr* item = got == sizeof(error) ? CMSG_FIRSTHDR(&message) : nullptr;
  if (item == nullptr) {
    errno = got == sizeof(error) && error != 0 ? error : EPERM;
    return -1;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(item), sizeof(int));
  return fd;
}

// Anything else ends the process: all it still has to do is in this list.
void AllowOnly() {
  const auto allow = [](std::uint32_t number, std::uint8_t skip) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, skip, 0, number};
  };
  const sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      allow(SYS_read, 6),
      allow(SYS_sendmsg, 5),
      allow(SYS_bpf, 4),
      allow(SYS_close, 3),
      allow(SYS_exit_group, 2),
      allow(SYS_restart_syscall, 1),
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program = {sizeof(filter) / sizeof(filter[0]), const_cast<sock_filter*>(filter)};
  // A kernel without seccomp: the server has given up all but one right anyway.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

}  // namespace

int EnableRunTimeStats() {
  int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
  if (fd < 0 && errno == EPERM && server >= 0) fd = Ask(server);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "timing BPF programs");
  return fd;
}

void UseRunTimeStatsServer(int socket) { server = socket; }

void ServeRunTimeStats(int socket) {
  AllowOnly();
  char byte = 0;
  ssize_t got = 0;
  while ((got = read(socket, &byte, 1)) > 0 || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    const int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
    const bool sent = Answer(socket, fd < 0 ? errno : 0, fd);
    if (fd >= 0) close(fd);
    if (!sent) break;
  }
  _exit(0);
}

}  // namespace rls
