// What the fuzz targets share: a file in memory to feed the readers of files, and claims that end
// the target where they do not hold.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
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
  MemoryFile() : fd_(memfd_create("rlscope-fuzz", MFD_CLOEXEC)) {
    Claim(fd_ >= 0, "a file in memory can be made");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  void Set(const void* data, std::size_t bytes) {
    Claim(ftruncate(fd_, 0) == 0, "a file in memory can be emptied");
    Claim(pwrite(fd_, data, bytes, 0) == static_cast<ssize_t>(bytes), "it can be written");
  }
  int fd() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
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
