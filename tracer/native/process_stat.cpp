#include "process_stat.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace rls {

std::vector<std::uint64_t> ReadStat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  // The name in front of it may hold anything.
  const std::size_t behind_name = text.rfind(')');
  if (behind_name == std::string::npos) return {};
  std::istringstream fields(text.substr(behind_name + 1));
  std::vector<std::uint64_t> numbers(3);
  for (std::string field; fields >> field;)
    numbers.push_back(std::strtoull(field.c_str(), nullptr, 10));
  return numbers;
}

}  // namespace rls
