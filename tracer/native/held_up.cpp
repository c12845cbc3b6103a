#include "held_up.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace rls {
namespace {

struct Working {
  std::mutex mutex;
  std::map<pid_t, pid_t> by_waiting;
};

Working& AllWorking() {
  // Never destroyed: threads that were left behind outlive everything else.
  static auto* working = new Working;
  return *working;
}

pid_t WorkingFor(pid_t tid) {
  Working& all = AllWorking();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.by_waiting.find(tid);
  return found == all.by_waiting.end() ? tid : found->second;
}

std::string Read(pid_t tid, const char* name) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/" + name);
  std::string text;
  std::getline(file, text);
  return text;
}

bool IsRunnable(const std::string& stat) {
  const std::size_t behind_name = stat.rfind(") ");
  return behind_name == std::string::npos || stat.compare(behind_name + 2, 1, "R") == 0;
}

}  // namespace

bool HeldUp::IsSince(pid_t tid) {
  const pid_t working = WorkingFor(tid);
  // Its time on a CPU, for one, and how often it came there.
  const std::string times = Read(working, "schedstat");
  const std::string now = std::to_string(working) + " " + times;
  const bool is_held_up = !times.empty() && now == before_ && !IsRunnable(Read(working, "stat"));
  before_ = now;
  return is_held_up;
}

WorksFor::WorksFor(pid_t waiting) : waiting_(waiting) {
  Working& all = AllWorking();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.by_waiting[waiting_] = static_cast<pid_t>(syscall(SYS_gettid));
}

WorksFor::~WorksFor() {
  Working& all = AllWorking();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.by_waiting.erase(waiting_);
}

}  // namespace rls
