#include "capture/btf_capture.h"

#include <bpf/bpf.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace rls {

BtfCapture::BtfCapture(const std::string& object_path, std::uint32_t ring_bytes)
    : object_(object_path) {
  object_.SetRingBytes(ring_bytes);
  object_.Load();
}

rls_control BtfCapture::Control() const {
  // The only global of bpf/sched.bpf.c, so the section is this struct.
  rls_control control = {};
  object_.ReadGlobals(".bss", &control);
  return control;
}

void BtfCapture::Attach() {
  // A first walk with nobody marked: tells the programs whose pids the user sees.
  object_.RunIterator("enter_existing");
  object_.AttachAll();
}

void BtfCapture::Mark(int pidfd) {
  const rls_track empty = {};
  // One that is traced already keeps what is known of it.
  if (bpf_map_update_elem(object_.MapFd("threads"), &pidfd, &empty, BPF_NOEXIST) != 0 &&
      errno != EEXIST)
    throw std::system_error(errno, std::generic_category(), "marking the target");
}

std::uint64_t BtfCapture::EnterExisting() {
  std::uint64_t before = 0;
  do {
    before = Control().found;
    object_.RunIterator("enter_existing");
  } while (Control().found != before);
  return before;
}

void BtfCapture::Detach() {
  object_.DetachAll();
  WaitForRunningPrograms();
}

void BtfCapture::CloseOpen() { object_.RunIterator("close_open"); }

void WaitForRunningPrograms() {
  // Programs run inside RCU read sections; this membarrier is the one that waits for them all.
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0) return;
  // Refused with nohz_full: no read section lasts as long as this.
  usleep(100000);
}

}  // namespace rls
