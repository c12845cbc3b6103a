#include "disk_space.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "clock.h"

namespace rls {
namespace {

constexpr std::uint64_t kMaxReserve = std::uint64_t{1} << 30;
constexpr std::uint64_t kPartOfDisk = 20;
// Others write to the disk too.
constexpr std::uint64_t kLookNs = 500'000'000;
constexpr std::uint64_t kLookBytes = 16 << 20;

}  // namespace

DiskSpace::DiskSpace(const std::string& directory)
    : directory_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  struct statvfs disk = {};
  if (directory_ < 0 || fstatvfs(directory_, &disk) != 0) return;
  const std::uint64_t unit = disk.f_frsize;
  reserve_ = std::min({kMaxReserve, disk.f_blocks * unit / kPartOfDisk, disk.f_bavail * unit / 2});
}

DiskSpace::~DiskSpace() {
  if (directory_ >= 0) close(directory_);
}

bool DiskSpace::Look() {
  struct statvfs disk = {};
  // A disk without a size has no end that we know of.
  if (directory_ < 0 || fstatvfs(directory_, &disk) != 0 || disk.f_blocks == 0) return false;
  free_ = disk.f_bavail * disk.f_frsize;
  return true;
}

bool DiskSpace::HasRoom(std::size_t bytes, bool is_small) {
  const std::uint64_t now_ns = MonotonicNs();
  if (now_ns >= next_ns_ || unseen_ >= kLookBytes) {
    if (!Look()) free_ = UINT64_MAX;
    next_ns_ = now_ns + kLookNs;
    unseen_ = 0;
  }
  if (free_ < bytes || free_ - bytes < (is_small ? reserve_ / 2 : reserve_)) return false;
  free_ -= bytes;
  unseen_ += bytes;
  return true;
}

}  // namespace rls
