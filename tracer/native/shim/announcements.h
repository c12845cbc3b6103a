// Where processes hand over the memory of their shims: an abstract unix socket.
//
// A process connects, sends its memfd and closes, and need not wait for us: from the connection on
// the kernel keeps what it sends, also if the process is killed or we do not get a CPU. Thousands
// of connections can wait so. Anybody can connect: of who does not belong to the target nothing is
// received.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traced_processes.h"

namespace rls {

struct Announcement {
  int memfd;  // the taker's
  std::uint32_t pid;
};

class ShimAnnouncements {
 public:
  // traced: who is heard, nullptr: everybody; it has to outlive this. Throws std::system_error.
  ShimAnnouncements(const std::string& session, TracedProcesses* traced);
  ShimAnnouncements(const ShimAnnouncements&) = delete;
  ShimAnnouncements& operator=(const ShimAnnouncements&) = delete;
  ~ShimAnnouncements();

  // Readable where somebody has connected.
  int fd() const { return socket_; }
  // Whether somebody has connected and not yet sent.
  bool has_waiting() const { return !waiting_.empty(); }
  // Connections that were refused so far: of who does not belong to the target, and of too many.
  std::uint64_t strangers() const { return strangers_; }
  std::uint64_t too_many() const { return too_many_; }
  // What has come, at most so much that a flood of it does not keep us from all else.
  std::vector<Announcement> Take();
  // From now on nobody can connect; who has is still taken.
  void Close();
  // Whether the last Take() left nobody who had connected before it.
  bool is_empty() const { return is_empty_ && waiting_.empty(); }

 private:
  struct Connection {
    int fd;
    std::uint32_t pid;
    std::uint32_t uid;
    std::uint64_t since_ns;
    bool is_heard;  // it belongs to the target
  };
  enum class Step { kWait, kDone };

  void Accept(std::vector<Announcement>* taken);
  void MakeRoom();
  Step Advance(Connection* connection, std::uint64_t now_ns, std::vector<Announcement>* taken);
  Belongs Judge(const Connection& connection, std::uint64_t now_ns);
  void Refuse(const Connection& connection, std::uint64_t* count);

  TracedProcesses* traced_;
  int socket_ = -1;
  bool is_empty_ = false;
  std::vector<Connection> waiting_;
  std::map<std::uint32_t, std::uint64_t> refused_;  // pid -> until when it is not looked at again
  std::uint64_t strangers_ = 0;
  std::uint64_t too_many_ = 0;
};

}  // namespace rls
