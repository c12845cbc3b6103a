#include "samples/files.h"

#include <fnmatch.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "inject/mapped_file.h"

namespace rls {
namespace {

// Files kept open, at most: of any more, code is read from the process.
constexpr std::size_t kOpenFiles = 1024;
// Files remembered, at most: a program may make and load new ones for as long as it runs.
constexpr std::size_t kKnownFiles = 16384;

std::string WithoutDeleted(const std::string& path) {
  constexpr char kMark[] = " (deleted)";
  const std::size_t bytes = sizeof(kMark) - 1;
  const bool marked = path.size() > bytes && path.compare(path.size() - bytes, bytes, kMark) == 0;
  return marked ? path.substr(0, path.size() - bytes) : path;
}

// What the OS kernel maps into every process: it is called like libc.
bool IsOfOsKernel(const std::string& path) { return path == "[vdso]" || path == "[vsyscall]"; }

bool Matches(const std::string& path, std::initializer_list<const char*> globs) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const char* glob) { return fnmatch(glob, path.c_str(), 0) == 0; });
}

// Half of the descriptors are left for all else.
int KeepIfRoom(int fd) {
  if (fd < 0) return fd;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) < limit.rlim_cur / 2)
    return fd;
  close(fd);
  return -1;
}

}  // namespace

SampleFile::~SampleFile() {
  if (fd >= 0) close(fd);
}

std::uint8_t SampleFiles::LayerOf(const std::string& path) const {
  if (IsOfOsKernel(path)) return kTransparent;
  const std::string clean = WithoutDeleted(path);
  if (clean.empty() || clean[0] != '/') return kUnnamed;
  for (const auto& [glob, layer] : rules_)
    if (fnmatch(glob.c_str(), clean.c_str(), 0) == 0) return static_cast<std::uint8_t>(layer);
  return kUnnamed;
}

std::shared_ptr<SampleFile> SampleFiles::Of(pid_t pid, const Mapping& mapping) {
  if (mapping.inode == 0) {
    auto file = std::make_shared<SampleFile>();
    file->layer = LayerOf(mapping.path);
    file->is_generated = file->layer != kTransparent;
    return file;
  }
  const std::string key = mapping.device + ' ' + std::to_string(mapping.inode) + ' ' + mapping.path;
  if (known_.size() >= kKnownFiles) known_.clear();
  std::shared_ptr<SampleFile>& file = known_[key];
  if (file != nullptr) return file;
  file = std::make_shared<SampleFile>();
  file->layer = LayerOf(mapping.path);
  // Some compilers map what they made from a file of their own.
  file->is_generated =
      mapping.path.compare(0, 7, "/memfd:") == 0 || mapping.path.compare(0, 5, "/dev/") == 0;
  const std::string path = WithoutDeleted(mapping.path);
  file->waits_busily = Matches(path, {"*/libiomp*.so*", "*/libomp*.so*"});
  file->is_openmp = file->waits_busily ||
                    Matches(path, {"*/libgomp*.so*", "*/libmkl_*_thread.so*", "*/libmkl_rt.so*"});
  if (known_.size() <= kOpenFiles) file->fd = KeepIfRoom(OpenMappedFile(pid, mapping));
  return file;
}

}  // namespace rls
