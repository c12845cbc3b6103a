// Messages that their reader did not sleep for, on kernels with BTF (bpf/message.bpf.c).
#pragma once

#include <string>

#include "capture/bpf_object.h"

namespace rls {

class MessageCapture {
 public:
  // Loads and attaches the programs for sockets, or those for pipes. The maps are those of a
  // BtfCapture, which stay its own. Throws std::system_error where this kernel cannot run them.
  MessageCapture(const std::string& object_path, int threads_fd, int ring_fd, int loss_fd,
                 bool of_pipes);

  // After this returns no program runs any more.
  void Detach();

 private:
  BpfObject object_;
};

}  // namespace rls
