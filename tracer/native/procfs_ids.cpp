#include "procfs_ids.h"

#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace rls {

// The last number of the line NSpid.
std::uint32_t InnerTidOf(std::istream& status) {
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    std::istringstream numbers(line.substr(6));
    std::uint32_t last = 0;
    for (std::uint32_t number = 0; numbers >> number;) last = number;
    return last;
  }
  return 0;
}

std::map<std::uint32_t, std::uint32_t> TidsByInner(std::uint32_t pid) {
  std::map<std::uint32_t, std::uint32_t> tids;
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* listing = opendir(folder.c_str());
  if (listing == nullptr) return tids;
  while (const dirent* entry = readdir(listing)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream status(folder + "/" + entry->d_name + "/status");
    const std::uint32_t inner = InnerTidOf(status);
    const auto tid = static_cast<std::uint32_t>(std::strtoul(entry->d_name, nullptr, 10));
    if (inner != 0) tids.emplace(inner, tid);
  }
  closedir(listing);
  return tids;
}

}  // namespace rls
