#include "held_up.h"

#include <fstream>
#include <string>

namespace rls {
namespace {

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
  // Its time on a CPU, for one, and how often it came there.
  const std::string now = Read(tid, "schedstat");
  const bool is_held_up = !now.empty() && now == before_ && !IsRunnable(Read(tid, "stat"));
  before_ = now;
  return is_held_up;
}

}  // namespace rls
