// Appends blocks to shim.bin (see shim/spool.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "disk_space.h"
#include "shim/spool.h"

namespace rls {

class ShimWriter {
 public:
  // Creates shim.bin in the existing directory. Throws std::system_error.
  explicit ShimWriter(const std::string& directory);
  ShimWriter(const ShimWriter&) = delete;
  ShimWriter& operator=(const ShimWriter&) = delete;
  ~ShimWriter();

  // All or nothing; false where no room is left on the disk (see DiskSpace), and what follows is
  // written in its place.
  bool Write(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot, const void* data,
             std::size_t bytes, const void* more = nullptr, std::size_t more_bytes = 0);
  // Whether the last block was written.
  bool has_room() const { return has_room_; }

 private:
  bool WriteAll(iovec* parts, int count);

  DiskSpace disk_;
  bool has_room_ = true;
  int fd_ = -1;
  std::uint64_t position_ = 0;
};

}  // namespace rls
