#include "shim/foreign_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

namespace rls {
namespace {

constexpr int kMaxClosing = 8;
constexpr int kMaxWaitMs = 100;
std::atomic<int> closing{0};

}  // namespace

bool IsSharedMemory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

void CloseForeign(int fd) {
  if (IsSharedMemory(fd)) {
    close(fd);
    return;
  }
  ++closing;
  try {
    std::thread([fd] {
      close(fd);
      --closing;
    }).detach();
  } catch (const std::system_error&) {
    // It stays open, and counts for ever.
  }
}

void WaitUntilClosed() {
  for (int count = 0; closing > 0 && count < kMaxWaitMs; ++count)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool IsClosingTooMany() { return closing >= kMaxClosing; }

}  // namespace rls
