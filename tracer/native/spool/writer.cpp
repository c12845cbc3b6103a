#include "spool/writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "clock.h"

namespace rls {
namespace {

// It holds names and arguments of the target.
constexpr mode_t kFileMode = 0600;

int CreateFile(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  return fd;
}

}  // namespace

SpoolWriter::SpoolWriter(const std::string& directory, std::uint32_t cpus)
    : disk_(directory),
      progress_bytes_(sizeof(SpoolProgress) + cpus * RLS_REC_KINDS * sizeof(rls_loss)) {
  const std::string path = directory + "/progress.bin";
  const int fd = CreateFile(path, O_RDWR);
  // Real blocks, not a hole: a store into the mapping must not fail when the disk is full.
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(progress_bytes_));
  void* memory = error == 0
                     ? mmap(nullptr, progress_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                     : MAP_FAILED;
  const int reason = error != 0 ? error : errno;
  close(fd);
  if (memory == MAP_FAILED) throw std::system_error(reason, std::generic_category(), path);
  progress_ = static_cast<SpoolProgress*>(memory);

  const SpoolHeader header = {kSpoolMagic, RLS_WIRE_VERSION, sizeof(SpoolHeader)};
  try {
    records_fd_ = CreateFile(directory + "/records.bin", O_WRONLY);
    if (!Write(reinterpret_cast<const char*>(&header), sizeof(header)))
      throw std::system_error(write_error_, std::generic_category(), directory + "/records.bin");
  } catch (...) {
    munmap(progress_, progress_bytes_);
    if (records_fd_ >= 0) close(records_fd_);
    throw;
  }
  progress_->cpus = cpus;
  progress_->wire_version = RLS_WIRE_VERSION;
  progress_->magic = kProgressMagic;
}

SpoolWriter::~SpoolWriter() {
  munmap(progress_, progress_bytes_);
  close(records_fd_);
}

// All or nothing: what follows is written over the part that fitted before the disk was full.
bool SpoolWriter::Write(const char* data, std::size_t bytes) {
  if (!disk_.HasRoom(bytes)) {
    write_error_ = ENOSPC;
    return false;
  }
  std::size_t done = 0;
  while (done < bytes) {
    const auto offset = static_cast<off_t>(progress_->bytes + done);
    const ssize_t written = pwrite(records_fd_, data + done, bytes - done, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      write_error_ = written < 0 ? errno : ENOSPC;
      return false;
    }
    done += static_cast<std::size_t>(written);
  }
  write_error_ = 0;
  progress_->bytes += bytes;
  return true;
}

void SpoolWriter::Watch(LiveTotals* totals) {
  const std::lock_guard<std::mutex> lock(mutex_);
  totals_ = totals;
  keeps_ = false;
}

void SpoolWriter::Keep() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (keeps_ || totals_ == nullptr) return;
  const std::size_t rows = std::size_t{progress_->cpus} * RLS_REC_KINDS;
  lost_before_.assign(ring_loss(), ring_loss() + rows);
  std::fill(ring_loss(), ring_loss() + rows, rls_loss{});
  RingSpan span;
  const std::string frames = totals_->Keyframe(MonotonicNs(), &span.records);
  span.data = frames.data();
  span.bytes = frames.size();
  keeps_ = true;
  ++generation_;
  WriteSpan(span);
}

void SpoolWriter::SetRingLoss(std::size_t row, const rls_loss& loss) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (row >= lost_before_.size() || lost_before_[row].count == 0) {
    ring_loss()[row] = loss;
  } else if (loss.count > lost_before_[row].count) {
    rls_loss& since = ring_loss()[row];
    if (since.count == 0) since.first_ns = MonotonicNs();
    since.count = loss.count - lost_before_[row].count;
  }
}

void SpoolWriter::AppendSpan(const RingSpan& span) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (totals_ != nullptr) totals_->Add(span);
  if (keeps_) WriteSpan(span);
}

void SpoolWriter::WriteSpan(const RingSpan& span) {
  const bool written = Write(span.data, span.bytes);
  for (std::size_t kind = 0; kind < RLS_REC_KINDS; ++kind) {
    if (span.records[kind] == 0) continue;
    if (written) {
      progress_->records[kind] += span.records[kind];
      continue;
    }
    rls_loss& lost = progress_->spool_loss[kind];
    if (lost.count == 0) lost.first_ns = MonotonicNs();
    lost.count += span.records[kind];
  }
}

void SpoolWriter::AppendRecord(const void* record, std::size_t bytes, std::uint16_t kind) {
  const auto length = static_cast<std::uint32_t>(bytes);
  std::string frame((kFrameHeaderBytes + bytes + 7) & ~std::size_t{7}, '\0');
  std::memcpy(frame.data(), &length, sizeof(length));
  std::memcpy(frame.data() + kFrameHeaderBytes, record, bytes);
  RingSpan span;
  span.data = frame.data();
  span.bytes = frame.size();
  span.records[kind] = 1;
  AppendSpan(span);
}

}  // namespace rls
