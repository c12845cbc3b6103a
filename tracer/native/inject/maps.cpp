#include "inject/maps.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "inject/error.h"

namespace rls {
namespace {

// start-end permissions offset device inode  path. By hand: it is read while a thread is held.
std::optional<Mapping> ParseLine(const std::string& line) {
  Mapping mapping = {};
  char* at = nullptr;
  mapping.start = std::strtoull(line.c_str(), &at, 16);
  if (*at != '-') return std::nullopt;
  mapping.end = std::strtoull(at + 1, &at, 16);
  if (std::strlen(at) < 6) return std::nullopt;
  mapping.permissions.assign(at + 1, 4);
  mapping.offset = std::strtoull(at + 6, &at, 16);
  const char* device = at + std::strspn(at, " ");
  const std::size_t device_length = std::strcspn(device, " ");
  mapping.device.assign(device, device_length);
  mapping.inode = std::strtoull(device + device_length, &at, 10);
  mapping.path.assign(at + std::strspn(at, " "));
  return mapping;
}

}  // namespace

std::string Mapping::Name() const {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::vector<Mapping> ReadMaps(pid_t pid) {
  std::ifstream input("/proc/" + std::to_string(pid) + "/maps");
  return ParseMaps(input);
}

std::vector<Mapping> ParseMaps(std::istream& text) {
  std::vector<Mapping> maps;
  for (std::string line; std::getline(text, line);)
    if (auto mapping = ParseLine(line)) maps.push_back(std::move(*mapping));
  return maps;
}

const Mapping* FindMapping(const std::vector<Mapping>& maps, std::uint64_t address) {
  for (const Mapping& mapping : maps)
    if (address >= mapping.start && address < mapping.end) return &mapping;
  return nullptr;
}

ProcessMemory::ProcessMemory(pid_t pid)
    : fd_(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDWR | O_CLOEXEC)) {
  if (fd_ < 0) throw InjectError("its memory cannot be opened: " + std::string(strerror(errno)));
}

ProcessMemory::~ProcessMemory() { close(fd_); }

bool ProcessMemory::Read(std::uint64_t address, void* bytes, std::size_t count) const {
  return pread(fd_, bytes, count, static_cast<off_t>(address)) == static_cast<ssize_t>(count);
}

bool ProcessMemory::Write(std::uint64_t address, const void* bytes, std::size_t count) const {
  return pwrite(fd_, bytes, count, static_cast<off_t>(address)) == static_cast<ssize_t>(count);
}

}  // namespace rls
