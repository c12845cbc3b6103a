#include "signal_wait.h"

#include <csignal>
#include <ctime>

namespace rls {

Arrived WaitSignal(const std::vector<int>& numbers, double timeout_s) {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : numbers) sigaddset(&wanted, number);
  timespec timeout = {};
  timeout.tv_sec = static_cast<time_t>(timeout_s);
  timeout.tv_nsec = static_cast<long>((timeout_s - static_cast<double>(timeout.tv_sec)) * 1e9);
  siginfo_t info = {};
  const int number = sigtimedwait(&wanted, &info, &timeout);
  return number > 0 ? Arrived{number, info.si_code} : Arrived{0, 0};
}

}  // namespace rls
