#include "capture/message_capture.h"

#include "capture/btf_capture.h"

namespace rls {

MessageCapture::MessageCapture(const std::string& object_path, int threads_fd, int ring_fd,
                               int loss_fd, bool of_pipes)
    : object_(object_path) {
  object_.SetAutoload("on_socket_send", !of_pipes);
  object_.SetAutoload("on_socket_recv", !of_pipes);
  object_.SetAutoload("on_system_call", of_pipes);
  object_.ReuseMap("threads", threads_fd);
  object_.ReuseMap("ring", ring_fd);
  object_.ReuseMap("loss", loss_fd);
  object_.Load();
  for (const auto& [name, fd] : object_.Programs()) object_.Attach(name);
}

void MessageCapture::Detach() {
  object_.DetachAll();
  WaitForRunningPrograms();
}

}  // namespace rls
