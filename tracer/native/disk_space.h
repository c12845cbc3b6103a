// Keeps some space free on the disk of a spool, so that a recording never takes the last of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rls {

class DiskSpace {
 public:
  // What is kept free: a twentieth of the disk, 1 GiB at most, and half of what is free now at
  // most.
  explicit DiskSpace(const std::string& directory);
  DiskSpace(const DiskSpace&) = delete;
  DiskSpace& operator=(const DiskSpace&) = delete;
  ~DiskSpace();

  // Whether so many bytes may be written. It asks the OS kernel now and then, not every time.
  // is_small: of what tells of losses, for which half of the reserve is there.
  bool HasRoom(std::size_t bytes, bool is_small = false);
  std::uint64_t reserve() const { return reserve_; }

 private:
  bool Look();

  int directory_ = -1;
  std::uint64_t reserve_ = 0;
  std::uint64_t free_ = UINT64_MAX;  // as last seen, less what was written since
  std::uint64_t unseen_ = 0;         // bytes written since
  std::uint64_t next_ns_ = 0;
};

}  // namespace rls
