// What the fuzz targets share: a file in memory to feed the readers of files, and claims that end
// the target where they do not hold.
#pragma once

#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace rls::fuzz {

// What the product promises of any input.
inline void Claim(bool holds, const char* claim) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", claim);
  std::abort();
}

class MemoryFile {
 public:
  MemoryFile() : MemoryFile(memfd_create("rlscope-fuzz", MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  void Set(const void* data, std::size_t bytes) {
    Claim(ftruncate(fd_, 0) == 0, "a file can be emptied");
    Claim(pwrite(fd_, data, bytes, 0) == static_cast<ssize_t>(bytes), "it can be written");
  }
  int fd() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 protected:
  explicit MemoryFile(int fd) : fd_(fd) { Claim(fd_ >= 0, "a file can be made"); }

 private:
  int fd_;
};

// One with a name, where it was started: readers of a spool follow no link, as those of /proc are.
class NamedFile : public MemoryFile {
 public:
  explicit NamedFile(std::string path)
      : MemoryFile(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
        path_(std::move(path)) {}

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The next bytes of the input as a plain struct; zeros where it has no more.
template <typename Record>
Record Take(FuzzedDataProvider* input) {
  Record record = {};
  input->ConsumeData(&record, sizeof(record));
  return record;
}

template <typename Record>
void Append(std::vector<char>* bytes, const Record& record) {
  const auto* data = reinterpret_cast<const char*>(&record);
  bytes->insert(bytes->end(), data, data + sizeof(record));
}

}  // namespace rls::fuzz
