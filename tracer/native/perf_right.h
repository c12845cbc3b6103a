// The right to open perf events where the OS kernel gives it to CAP_SYS_ADMIN alone.
#pragma once

namespace rls {

// Debian's and Ubuntu's kernels do so (kernel.perf_event_paranoid above 2), where others ask for
// CAP_PERFMON. A recorder keeps that capability permitted there, and effective in one thread while
// this lives. It does nothing for who has it anyway, or has it not at all.
class PerfRight {
 public:
  PerfRight();
  ~PerfRight();
  PerfRight(const PerfRight&) = delete;
  PerfRight& operator=(const PerfRight&) = delete;

 private:
  bool is_raised_;
};

}  // namespace rls
