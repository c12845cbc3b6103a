#include "capture/message_capture.h"

#include "capture/btf_capture.h"

namespace rls {

namespace {

constexpr const char* kOfSockets[] = {"on_socket_send", "on_socket_recv"};
constexpr const char* kOfPipes = "on_system_call";

}  // namespace

MessageCapture::MessageCapture(const std::string& object_path, int threads_fd, int ring_fd,
                               int loss_fd, bool of_pipes)
    : object_(object_path) {
  for (const char* name : kOfSockets) object_.SetAutoload(name, !of_pipes);
  object_.SetAutoload(kOfPipes, of_pipes);
  object_.ReuseMap("threads", threads_fd);
  object_.ReuseMap("ring", ring_fd);
  object_.ReuseMap("loss", loss_fd);
  object_.Load();
  if (of_pipes) {
    object_.Attach(kOfPipes);
  } else {
    for (const char* name : kOfSockets) object_.Attach(name);
  }
}

void MessageCapture::Detach() {
  object_.DetachAll();
  WaitForRunningPrograms();
}

}  // namespace rls
