// The account that the OS kernel keeps of the time BPF programs run: of ours, for a while.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rls {

// Programs of one name, together.
struct ProgramTime {
  std::string name;
  std::uint64_t runs = 0;
  std::uint64_t time_ns = 0;
};

struct ProgramAccount {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::vector<ProgramTime> programs;
};

// While it is kept, every run of every BPF program of the machine takes two clock reads longer. The
// OS kernel ends it with the process, however that ends.
class ProgramClock {
 public:
  // Name and file descriptor; the descriptors stay the caller's, and must stay open.
  using Programs = std::vector<std::pair<std::string, int>>;

  explicit ProgramClock(Programs programs) : programs_(std::move(programs)) {}
  ProgramClock(const ProgramClock&) = delete;
  ProgramClock& operator=(const ProgramClock&) = delete;
  ~ProgramClock() { Close(); }

  // Begins an account. Throws std::system_error where the OS kernel keeps none, or not for us.
  void Start();
  // Ends it: what has run since Start. Throws std::system_error if none is being kept.
  ProgramAccount Stop();

 private:
  std::vector<ProgramTime> Read() const;
  void Close() noexcept;

  Programs programs_;
  int fd_ = -1;
  std::uint64_t start_ns_ = 0;
  std::vector<ProgramTime> before_;
};

}  // namespace rls
