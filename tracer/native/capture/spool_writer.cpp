#include "capture/spool_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

#include "clock.h"

namespace rls {
namespace {

// It holds names and arguments of the target.
constexpr mode_t kFileMode = 0600;

int CreateFile(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  return fd;
}

// False with errno.
bool WriteAll(int fd, const char* data, std::size_t bytes, std::uint64_t at) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t written = pwrite(fd, data + done, bytes - done, static_cast<off_t>(at + done));
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

SpoolWriter::SpoolWriter(const std::string& directory, std::uint32_t cpus, LiveTotals* totals)
    : directory_(directory),
      cpus_(cpus),
      totals_(totals),
      disk_(directory),
      progress_bytes_(sizeof(SpoolProgress) + cpus * RLS_REC_KINDS * sizeof(rls_loss)) {
  const std::string suffix = totals == nullptr ? ".bin" : "-0.bin";
  const Files files = Create(suffix);
  records_fd_ = files.records_fd;
  progress_fd_ = files.progress_fd;
  progress_ = files.progress;
  const SpoolHeader header = {kSpoolMagic, RLS_WIRE_VERSION, sizeof(SpoolHeader)};
  SegmentHeader segment = {};
  segment.cut_ns = MonotonicNs();
  const bool is_begun = totals == nullptr
                            ? Write(reinterpret_cast<const char*>(&header), sizeof(header))
                            : BeginSegment(files, segment, "");
  if (is_begun) {
    Publish();
    return;
  }
  Close(files);
  throw std::system_error(write_error_, std::generic_category(), directory + "/records" + suffix);
}

SpoolWriter::~SpoolWriter() { Close({records_fd_, progress_fd_, progress_}); }

// Throws std::system_error.
SpoolWriter::Files SpoolWriter::Create(const std::string& suffix) {
  const std::string path = directory_ + "/progress" + suffix;
  Files files;
  files.progress_fd = CreateFile(path, O_WRONLY);
  try {
    // Real blocks, not a hole: what is counted is written when the disk is full, too.
    const int error = posix_fallocate(files.progress_fd, 0, static_cast<off_t>(progress_bytes_));
    if (error != 0) throw std::system_error(error, std::generic_category(), path);
    files.progress = static_cast<SpoolProgress*>(std::calloc(1, progress_bytes_));
    if (files.progress == nullptr) throw std::bad_alloc();
    files.records_fd = CreateFile(directory_ + "/records" + suffix, O_WRONLY);
  } catch (...) {
    Close(files);
    throw;
  }
  files.progress->cpus = cpus_;
  files.progress->wire_version = RLS_WIRE_VERSION;
  files.progress->magic = kProgressMagic;
  return files;
}

void SpoolWriter::Close(const Files& files) {
  std::free(files.progress);
  close(files.progress_fd);
  if (files.records_fd >= 0) close(files.records_fd);
}

void SpoolWriter::Publish() { PublishTo({records_fd_, progress_fd_, progress_}, progress_bytes_); }

// What cannot be written now is tried again with what comes next.
void SpoolWriter::PublishTo(const Files& files, std::size_t bytes) {
  WriteAll(files.progress_fd, reinterpret_cast<const char*>(files.progress), bytes, 0);
}

// The header comes last: what has one can be read, whenever we are killed.
bool SpoolWriter::BeginSegment(Files files, SegmentHeader header, const std::string& keyframe) {
  header.magic = kSegmentMagic;
  header.wire_version = RLS_WIRE_VERSION;
  header.header_bytes = sizeof(header);
  header.keyframe_bytes = keyframe.size();
  if (!disk_.HasRoom(keyframe.size())) {
    write_error_ = ENOSPC;
    return false;
  }
  files.progress->bytes = sizeof(header) + keyframe.size();
  files.progress->drained_ns = header.cut_ns;
  PublishTo(files, progress_bytes_);
  if (WriteAll(files.records_fd, keyframe.data(), keyframe.size(), sizeof(header)) &&
      WriteAll(files.records_fd, reinterpret_cast<const char*>(&header), sizeof(header), 0))
    return true;
  write_error_ = errno;
  return false;
}

void SpoolWriter::AddUp() {
  for (std::size_t kind = 0; kind < RLS_REC_KINDS; ++kind) {
    records_before_ += progress_->records[kind];
    lost_sum_before_ += progress_->spool_loss[kind].count;
  }
  const std::size_t rows = std::size_t{cpus_} * RLS_REC_KINDS;
  lost_before_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    lost_sum_before_ += ring_loss()[row].count;
    lost_before_[row].count += ring_loss()[row].count;
  }
}

bool SpoolWriter::Rotate(std::uint64_t number, std::uint64_t missed_runs,
                         std::uint64_t failed_updates) {
  const std::lock_guard<std::mutex> lock(mutex_);
  SegmentHeader header = {};
  header.number = number;
  header.previous = number_;
  header.cut_ns = MonotonicNs();
  header.missed_runs = missed_runs;
  header.failed_updates = failed_updates;
  std::array<std::uint64_t, RLS_REC_KINDS> reported = {};
  const std::string keyframe = totals_->Keyframe(header.cut_ns, &reported);
  const std::string suffix = "-" + std::to_string(number) + ".bin";
  const Files files = Create(suffix);
  if (!BeginSegment(files, header, keyframe)) {
    Close(files);
    unlink((directory_ + "/records" + suffix).c_str());
    unlink((directory_ + "/progress" + suffix).c_str());
    return false;
  }
  AddUp();
  // What a full disk took of a record in part.
  if (ftruncate(records_fd_, static_cast<off_t>(progress_->bytes)) != 0) write_error_ = errno;
  Publish();
  Close({records_fd_, progress_fd_, progress_});
  records_fd_ = files.records_fd;
  progress_fd_ = files.progress_fd;
  progress_ = files.progress;
  number_ = number;
  ++generation_;
  totals_->ForgetStacks();
  return true;
}

void SpoolWriter::NoteDrained(std::uint64_t ts_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_->drained_ns = ts_ns;
}

void SpoolWriter::PublishLosses() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Publish();
}

// All or nothing: what follows is written over the part that fitted before the disk was full.
bool SpoolWriter::Write(const char* data, std::size_t bytes) {
  if (!disk_.HasRoom(bytes)) {
    write_error_ = ENOSPC;
    return false;
  }
  if (!WriteAll(records_fd_, data, bytes, progress_->bytes)) {
    write_error_ = errno;
    return false;
  }
  write_error_ = 0;
  progress_->bytes += bytes;
  return true;
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
  WriteSpan(span);
}

bool SpoolWriter::AppendSpan(const RingSpan& span, std::uint64_t generation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (generation != generation_) return false;
  if (totals_ != nullptr) totals_->Add(span);
  WriteSpan(span);
  return true;
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
  // Losses of the ring, of which there are many where there are many CPUs, come when they are read.
  PublishTo({records_fd_, progress_fd_, progress_}, sizeof(SpoolProgress));
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
