#include "capture/btf_capture.h"

#include <bpf/bpf.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

#include "clock.h"

namespace rls {

namespace {

const char* const kSchedulerPrograms[] = {"on_switch", "on_waking", "on_wakeup_new"};
constexpr std::uint64_t kNotKnownYet = std::numeric_limits<std::uint64_t>::max();

}  // namespace

BtfCapture::BtfCapture(const std::string& object_path, std::uint32_t ring_bytes, bool pausable)
    : object_(object_path), pausable_(pausable) {
  object_.SetRingBytes(ring_bytes);
  object_.SetGlobals(".rodata.pause", &pausable, sizeof(pausable));
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
  if (bpf_map_update_elem(object_.MapFd("threads"), &pidfd, &empty, BPF_ANY) != 0)
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

void BtfCapture::TellPause(std::uint64_t start_ns, std::uint64_t end_ns) {
  const std::uint32_t zero = 0;
  const rls_pause pause = {start_ns, end_ns};
  if (bpf_map_update_elem(object_.MapFd(".data.pause"), &zero, &pause, BPF_ANY) != 0)
    throw std::system_error(errno, std::generic_category(), "telling of a pause");
}

void BtfCapture::Suspend() {
  if (!pausable_ || pause_end_ns_ == kNotKnownYet)
    throw std::system_error(EINVAL, std::generic_category(), "pausing the scheduler programs");
  pause_start_ns_ = MonotonicNs();
  // One number at a time: what the programs may read in between means no pause.
  TellPause(pause_start_ns_, pause_end_ns_);
  pause_end_ns_ = kNotKnownYet;
  TellPause(pause_start_ns_, pause_end_ns_);
  for (const char* name : kSchedulerPrograms) object_.Detach(name);
  WaitForRunningPrograms();
}

void BtfCapture::Resume() {
  if (pause_end_ns_ != kNotKnownYet) return;
  for (const char* name : kSchedulerPrograms) object_.Attach(name);
  pause_end_ns_ = MonotonicNs();
  TellPause(pause_start_ns_, pause_end_ns_);
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
