// Appends blocks to shim.bin (see shim/spool.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "disk_space.h"
#include "shim/live_phases.h"
#include "shim/spool.h"

namespace rls {

class ShimWriter {
 public:
  // Creates shim.bin in the existing directory. Throws std::system_error.
  // phases: with it the first segment is made in its place; it sees all blocks, and has to outlive
  // this.
  explicit ShimWriter(const std::string& directory, LivePhases* phases = nullptr);
  ShimWriter(const ShimWriter&) = delete;
  ShimWriter& operator=(const ShimWriter&) = delete;
  ~ShimWriter();

  // All or nothing; false where no room is left on the disk (see DiskSpace), and what follows is
  // written in its place.
  bool Write(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot, const void* data,
             std::size_t bytes, const void* more = nullptr, std::size_t more_bytes = 0);
  // Goes on in a new segment: what is written between the two tells what was so when it began.
  // False where there was no room for it: then it goes on in the old one.
  bool BeginSegment(std::uint64_t number);
  bool EndKeyframe();
  // Whether the last block was written.
  bool has_room() const { return has_room_; }

 private:
  bool WriteBlock(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot, const void* data,
                  std::size_t bytes, const void* more, std::size_t more_bytes);
  bool WriteAll(iovec* parts, int count);
  bool WriteHeader(std::uint64_t keyframe_bytes);
  std::string PathOf(std::uint64_t number) const;

  std::string directory_;
  DiskSpace disk_;
  LivePhases* phases_ = nullptr;
  bool has_room_ = true;
  int fd_ = -1;
  std::uint64_t position_ = 0;
  std::uint64_t number_ = 0;  // of the segment
  // While a keyframe is written: of the segment before.
  int former_fd_ = -1;
  std::uint64_t former_position_ = 0;
  std::uint64_t former_number_ = 0;
  bool is_sound_ = true;  // all of the keyframe was written
};

}  // namespace rls
