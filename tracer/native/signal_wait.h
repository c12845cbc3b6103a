// Waits for blocked signals. Python's own signal.sigtimedwait returns garbage when SIGCONT
// interrupts it after its deadline (seen with 3.11), which then looks like a signal to pass on.
#pragma once

#include <vector>

namespace rls {

struct Arrived {
  int number;  // 0: none
  int code;    // si_code: who sent it
};

// Takes one of the blocked signals, waiting at most this long; none also after any interruption.
Arrived WaitSignal(const std::vector<int>& numbers, double timeout_s);

}  // namespace rls
