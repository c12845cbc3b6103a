#include "inject/mapped_file.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "mounts.h"
#include "process_stat.h"

namespace rls {
namespace {

constexpr int kLook = O_PATH | O_CLOEXEC;
constexpr char kServed[] = "fuse";
constexpr std::size_t kPart = std::size_t{1} << 16;

std::string Folder(pid_t pid) { return "/proc/" + std::to_string(pid); }

// The name of a mapped file below the root of its process. The OS kernel writes both as they are
// seen from our own root; where that does not hold them, as from the root of the mounts: only what
// is below the root of a program that was put into a folder (chroot) can be opened from there.
std::string NameBelowRoot(pid_t pid, const std::string& path) {
  char root[PATH_MAX];
  const ssize_t length = readlink((Folder(pid) + "/root").c_str(), root, sizeof(root));
  const std::string prefix(root, length > 0 ? static_cast<std::size_t>(length) : 0);
  const bool is_below = path.compare(0, prefix.size(), prefix) == 0 && path[prefix.size()] == '/';
  return path.substr(is_below ? prefix.size() + 1 : 1);
}

// Without waiting for any file system: by the mapping itself, which needs a right of its own, or by
// its name where the OS kernel has that at hand.
int Look(pid_t pid, const Mapping& mapping, bool* by_name) {
  char mapped[64];
  std::snprintf(mapped, sizeof(mapped), "/map_files/%" PRIx64 "-%" PRIx64, mapping.start,
                mapping.end);
  const int fd = open((Folder(pid) + mapped).c_str(), kLook);
  *by_name = fd < 0;
  if (fd >= 0 || mapping.path.empty() || mapping.path[0] != '/') return fd;
  const int root = open((Folder(pid) + "/root").c_str(), kLook | O_DIRECTORY);
  if (root < 0) return -1;
  open_how how = {};
  how.flags = kLook;
  // The name that the OS kernel tells goes through no link.
  how.resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS;
  const std::string name = NameBelowRoot(pid, mapping.path);
  long named = syscall(SYS_openat2, root, name.c_str(), &how, sizeof(how));
  // Before Linux 5.12 there is no such question.
  if (named < 0 && (errno == EINVAL || errno == ENOSYS)) named = openat(root, name.c_str(), kLook);
  close(root);
  return static_cast<int>(named);
}

// A line of mountinfo: number parent device root point options [tags] - type source options. Who
// mounted it is not asked: in a namespace of theirs everybody is root.
bool IsServed(const std::string& line) {
  const std::size_t mark = line.find(" - ");
  if (mark == std::string::npos) return true;
  const std::string type = line.substr(mark + 3, line.find(' ', mark + 3) - mark - 3);
  return type.compare(0, sizeof(kServed) - 1, kServed) == 0 && type != "fusectl";
}

// Whether each mount is served by a program; those that nobody lists, as of what was unmounted
// while it was in use, are not in it.
std::map<std::uint64_t, bool> ServedMounts(pid_t pid) {
  std::map<std::uint64_t, bool> served;
  for (const std::string& path : {std::string("/proc/self"), Folder(pid)}) {
    std::ifstream file(path + "/mountinfo");
    for (std::string line; std::getline(file, line);)
      served[std::strtoull(line.c_str(), nullptr, 10)] = IsServed(line);
  }
  return served;
}

bool IsServed(int fd, const std::map<std::uint64_t, bool>& mounts) {
  const std::uint64_t mount = MountOf(fd);
  const auto found = mounts.find(mount);
  if (found != mounts.end()) return found->second;
  // Shared memory and huge pages have mounts of the OS kernel's own.
  return mount != SharedMount(0) && mount != SharedMount(MFD_HUGETLB);
}

bool IsOfFile(const Mapping& mapping) { return mapping.inode != 0 && mapping.path[0] == '/'; }

}  // namespace

ServedMemory::ServedMemory(pid_t pid, const std::vector<Mapping>& maps,
                           const ServedMemory& before) {
  std::map<std::uint64_t, bool> mounts;
  for (const Mapping& mapping : maps) {
    if (!IsOfFile(mapping)) continue;
    const auto [device, is_new] = by_device_.try_emplace(mapping.device, false);
    if (is_new) {
      const auto known = before.by_device_.find(mapping.device);
      if (known != before.by_device_.end()) {
        device->second = known->second;
      } else {
        if (mounts.empty()) mounts = ServedMounts(pid);
        bool by_name = false;
        const int fd = Look(pid, mapping, &by_name);
        device->second = fd >= 0 && IsServed(fd, mounts);
        if (fd >= 0) close(fd);
      }
    }
    if (device->second) ranges_.push_back({mapping.start, mapping.end});
  }
}

bool ServedMemory::Holds(std::uint64_t address, std::size_t bytes) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return address < range.end && range.start < address + bytes;
  });
}

int OpenMappedFile(pid_t pid, const Mapping& mapping) {
  bool by_name = false;
  const int held = Look(pid, mapping, &by_name);
  if (held < 0) return -1;
  struct stat status = {};
  int fd = -1;
  if (!IsServed(held, ServedMounts(pid)) && fstat(held, &status) == 0 && S_ISREG(status.st_mode) &&
      (!by_name || status.st_ino == mapping.inode)) {
    const std::string path = "/proc/self/fd/" + std::to_string(held);
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  }
  close(held);
  return fd;
}

std::string ReadShownMemory(pid_t pid, const char* name, std::size_t most) {
  const std::vector<std::uint64_t> numbers = ReadStat(pid);
  const bool is_known = numbers.size() > kEnvEnd;
  const std::uint64_t start = is_known ? numbers[kArgStart] : 0;
  const std::uint64_t end = is_known ? numbers[kEnvEnd] : 0;
  const ServedMemory served(pid, ReadMaps(pid));
  // Its arguments may lie anywhere, and the environment anywhere else.
  if (!served.is_empty() && (end <= start || served.Holds(start, end - start))) return "";
  const int fd = open((Folder(pid) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "opening memory shown");
  std::string shown;
  std::vector<char> part(std::min(most, kPart));
  ssize_t bytes = 0;
  while (shown.size() < most &&
         (bytes = read(fd, part.data(), std::min(part.size(), most - shown.size()))) > 0)
    shown.append(part.data(), static_cast<std::size_t>(bytes));
  close(fd);
  return shown;
}

}  // namespace rls
