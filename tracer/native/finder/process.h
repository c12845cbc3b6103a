// Another process, read only: its mappings, its memory and the files it has mapped. The process is
// never stopped, never written to, and may end or become another program at any moment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "inject/mapped_file.h"
#include "inject/maps.h"

namespace rls {

// A file descriptor that is closed with its owner.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;

  int get() const { return fd_; }
  bool IsOpen() const { return fd_ >= 0; }

 private:
  int fd_;
};

// A range of addresses, end excluded.
struct AddressRange {
  std::uint64_t start;
  std::uint64_t end;

  bool Contains(std::uint64_t address) const { return address >= start && address < end; }
};

class TargetProcess {
 public:
  // Throws std::system_error: ESRCH where there is no such process, EPERM/EACCES where its memory
  // may not be read.
  explicit TargetProcess(pid_t pid);

  pid_t pid() const { return pid_; }
  // Whether a program serves some of its memory, which is not read then.
  bool is_served() const { return !served_.is_empty(); }
  // Throws ESRCH when the program that was opened is no longer the one that runs.
  void CheckAlive() const;
  // By address. Throws ESRCH as above.
  std::vector<Mapping> Maps() const;
  // Whether all bytes could be read; a mapping that is gone is no error.
  bool Read(std::uint64_t address, void* bytes, std::size_t count) const;
  // For large reads: fewer copies. What was read is of this process only if CheckAlive passes
  // later.
  std::size_t ReadMost(std::uint64_t address, void* bytes, std::size_t count) const;
  // Whether Present() can tell; it needs the file's right to be opened.
  bool knows_present() const { return pagemap_.IsOpen(); }
  // The parts of a range that have pages in memory, so that reading them brings none into being.
  std::vector<AddressRange> Present(const AddressRange& range) const;
  // See OpenMappedFile.
  OwnedFd OpenMapped(const Mapping& mapping) const;
  // From any thread: lets whoever reads memory now or later fail, with ECANCELED.
  void Cancel() { is_cancelled_ = true; }

 private:
  void CheckCancelled() const;
  // How many bytes could be read.
  std::size_t ReadNow(std::uint64_t address, void* bytes, std::size_t count) const;

  pid_t pid_;
  ServedMemory served_;
  OwnedFd folder_;  // /proc/PID: fails once the process is gone, even if its pid is used again
  // Keeps to the program that runs now: reads nothing after an exec. Not open where only the
  // system call may read.
  OwnedFd memory_;
  std::uint64_t arguments_ = 0;  // where they begin: tells programs apart without memory_
  OwnedFd pagemap_;
  std::atomic<bool> is_cancelled_ = false;
  std::uint64_t probe_address_ = 0;  // readable for as long as the program runs
};

// Small reads at scattered addresses, page by page, in bounded memory.
class PageCache {
 public:
  explicit PageCache(const TargetProcess& process) : process_(process) {}

  bool Read(std::uint64_t address, void* bytes, std::size_t count);
  template <typename T>
  std::optional<T> Get(std::uint64_t address) {
    T value;
    if (!Read(address, &value, sizeof(value))) return std::nullopt;
    return value;
  }
  // The printable text that ends with a zero byte; nullopt: none, or longer than `limit`.
  std::optional<std::string> Text(std::uint64_t address, std::size_t limit = 200);

 private:
  struct Page {
    bool readable;
    unsigned char bytes[4096];
  };
  const Page& Load(std::uint64_t page);

  const TargetProcess& process_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace rls
