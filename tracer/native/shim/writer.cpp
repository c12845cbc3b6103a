#include "shim/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "clock.h"

namespace rls {
namespace {

constexpr mode_t kFileMode = 0600;  // it holds texts of the target

int Create(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
}

}  // namespace

ShimWriter::ShimWriter(const std::string& directory, LivePhases* phases)
    : directory_(directory), disk_(directory), phases_(phases) {
  const std::string path = phases == nullptr ? directory + "/shim.bin" : PathOf(0);
  fd_ = Create(path);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path);
  ShimSpoolHeader header = {kShimSpoolMagic, RLS_SHIM_VERSION, sizeof(ShimSpoolHeader)};
  iovec part = {&header, sizeof(header)};
  if (phases != nullptr) position_ = sizeof(ShimSegmentHeader);
  if (!(phases == nullptr ? WriteAll(&part, 1) : WriteHeader(0))) {
    const int error = errno;
    close(fd_);
    throw std::system_error(error, std::generic_category(), path);
  }
}

ShimWriter::~ShimWriter() { close(fd_); }

std::string ShimWriter::PathOf(std::uint64_t number) const {
  return directory_ + "/shim-" + std::to_string(number) + ".bin";
}

bool ShimWriter::WriteHeader(std::uint64_t keyframe_bytes) {
  ShimSegmentHeader header = {};
  header.magic = kShimSegmentMagic;
  header.version = RLS_SHIM_VERSION;
  header.header_bytes = sizeof(header);
  header.number = number_;
  header.previous = former_number_;
  header.keyframe_bytes = keyframe_bytes;
  ssize_t written = -1;
  do {
    written = pwrite(fd_, &header, sizeof(header), 0);
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(sizeof(header));
}

bool ShimWriter::BeginSegment(std::uint64_t number) {
  const int fd = Create(PathOf(number));
  if (fd < 0) return false;
  former_fd_ = fd_;
  former_position_ = position_;
  former_number_ = number_;
  fd_ = fd;
  number_ = number;
  position_ = sizeof(ShimSegmentHeader);
  is_sound_ = true;
  phases_->Keyframe([this](ShimBlockKind kind, std::uint32_t source, std::uint32_t slot,
                           const std::string& data) {
    WriteBlock(kind, source, slot, data.data(), data.size(), nullptr, 0);
  });
  return true;
}

// The header comes last: what has one can be read, whenever we are killed.
bool ShimWriter::EndKeyframe() {
  if (is_sound_ && WriteHeader(position_ - sizeof(ShimSegmentHeader))) {
    // What a full disk took of a block in part.
    if (ftruncate(former_fd_, static_cast<off_t>(former_position_)) != 0) has_room_ = false;
    close(former_fd_);
    return true;
  }
  close(fd_);
  unlink(PathOf(number_).c_str());
  fd_ = former_fd_;
  position_ = former_position_;
  number_ = former_number_;
  return false;
}

bool ShimWriter::Write(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot,
                       const void* data, std::size_t bytes, const void* more,
                       std::size_t more_bytes) {
  const bool is_written = WriteBlock(kind, source, slot, data, bytes, more, more_bytes);
  // What is not written comes again.
  if (is_written && phases_ != nullptr)
    phases_->Add(kind, source, slot, {static_cast<const char*>(data), bytes},
                 {static_cast<const char*>(more), more_bytes});
  return is_written;
}

bool ShimWriter::WriteBlock(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot,
                            const void* data, std::size_t bytes, const void* more,
                            std::size_t more_bytes) {
  ShimBlock block = {};
  block.magic = kShimBlockMagic;
  block.kind = kind;
  block.slot = static_cast<std::uint16_t>(slot);
  block.source = source;
  block.bytes = static_cast<std::uint32_t>(bytes + more_bytes);
  block.ts_ns = MonotonicNs();
  iovec parts[] = {{&block, sizeof(block)},
                   {const_cast<void*>(data), bytes},
                   {const_cast<void*>(more), more_bytes}};
  const bool tells_losses = kind == ShimBlockKind::kCounters || kind == ShimBlockKind::kLost ||
                            kind == ShimBlockKind::kRefused;
  has_room_ = disk_.HasRoom(sizeof(block) + block.bytes, tells_losses) && WriteAll(parts, 3);
  is_sound_ = is_sound_ && has_room_;
  return has_room_;
}

bool ShimWriter::WriteAll(iovec* parts, int count) {
  std::uint64_t position = position_;
  while (count > 0) {
    if (parts->iov_len == 0) {
      ++parts;
      --count;
      continue;
    }
    const ssize_t written = pwritev(fd_, parts, count, static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    position += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (count > 0 && left >= parts->iov_len) {
      left -= parts->iov_len;
      ++parts;
      --count;
    }
    if (count > 0) {
      parts->iov_base = static_cast<char*>(parts->iov_base) + left;
      parts->iov_len -= left;
    }
  }
  position_ = position;
  return true;
}

}  // namespace rls
