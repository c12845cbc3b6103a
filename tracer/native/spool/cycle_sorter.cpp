#include "spool/cycle_sorter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace rls {
namespace {

constexpr std::uint32_t kNoBucket = UINT32_MAX;
constexpr std::size_t kCycleBytes = sizeof(rls_rec_cycle);
constexpr std::size_t kChunkCycles = (1U << 20) / kCycleBytes;

// All buckets together wait in so much memory; each in at least kMinPending cycles, because a
// shorter write costs more than the copy.
constexpr std::size_t kPendingBytes = 32U << 20;
constexpr std::size_t kMinPending = 64;

[[noreturn]] void ThrowErrno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

[[noreturn]] void ThrowChanged() {
  throw std::runtime_error("the spool changed while it was read");
}

}  // namespace

CycleSorter::CycleSorter(const SpoolScan& scan, std::vector<std::uint32_t> slots,
                         std::string scratch_directory, std::size_t bucket_bytes)
    : scan_(scan),
      slots_(std::move(slots)),
      bucket_of_(scan.threads().size(), kNoBucket),
      next_place_(scan.threads().size(), 0) {
  CutBuckets(bucket_bytes);
  const bool is_large = !buckets_.empty() && buckets_.back().cycles * kCycleBytes > bucket_bytes;
  if (buckets_.size() > 1 || is_large) {
    OpenScratch(scratch_directory);
    pending_cycles_ = std::max(kPendingBytes / kCycleBytes / buckets_.size(), kMinPending);
    scatter_reader_ = std::make_unique<FrameReader>(scan.path());
  }
}

CycleSorter::~CycleSorter() {
  if (scratch_fd_ >= 0) {
    close(scratch_fd_);
  }
}

std::uint64_t CycleSorter::CyclesOf(std::size_t position) const {
  return scan_.threads()[slots_[position]].cycles;
}

void CycleSorter::CutBuckets(std::size_t bucket_bytes) {
  std::uint64_t offset = 0;
  for (std::size_t position = 0; position < slots_.size(); ++position) {
    const std::uint64_t cycles = CyclesOf(position);
    if (buckets_.empty() || (buckets_.back().cycles + cycles) * kCycleBytes > bucket_bytes) {
      buckets_.push_back({position, position, 0, offset, {}, 0});
    }
    buckets_.back().last = position + 1;
    buckets_.back().cycles += cycles;
    offset += cycles * kCycleBytes;
    bucket_of_[slots_[position]] = static_cast<std::uint32_t>(buckets_.size() - 1);
  }
}

void CycleSorter::OpenScratch(const std::string& directory) {
  // Without a name from the start where the file system can, so that no kill leaves it behind.
  scratch_fd_ = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (scratch_fd_ >= 0) {
    return;
  }
  std::string name = directory + "/scratch-XXXXXX";
  scratch_fd_ = mkostemp(name.data(), O_CLOEXEC);
  if (scratch_fd_ < 0) {
    ThrowErrno("creating a scratch file");
  }
  unlink(name.c_str());
}

bool CycleSorter::Scatter(std::uint64_t bytes) {
  if (scatter_reader_ == nullptr) {
    return false;
  }
  const std::uint64_t until = scatter_reader_->position() + bytes;
  Frame frame;
  rls_rec_cycle cycle;
  while (scatter_reader_->position() < until) {
    if (!scatter_reader_->Next(&frame)) {
      for (Bucket& bucket : buckets_) {
        Flush(&bucket);
        std::vector<rls_rec_cycle>().swap(bucket.pending);
      }
      scatter_reader_.reset();
      return false;
    }
    if (RecordKind(frame) != RLS_REC_CYCLE || !ReadCycle(frame, scan_.latest_ns(), &cycle)) {
      continue;
    }
    const std::uint32_t slot = scan_.index().Find(cycle.thread_id);
    if (slot == ThreadIndex::kNone) {
      ThrowChanged();
    }
    if (bucket_of_[slot] == kNoBucket) {
      continue;
    }
    Bucket& bucket = buckets_[bucket_of_[slot]];
    bucket.pending.push_back(cycle);
    if (bucket.pending.size() >= pending_cycles_) {
      Flush(&bucket);
    }
  }
  return true;
}

void CycleSorter::Flush(Bucket* bucket) {
  if (bucket->written + bucket->pending.size() > bucket->cycles) {
    ThrowChanged();
  }
  const char* from = reinterpret_cast<const char*>(bucket->pending.data());
  std::size_t left = bucket->pending.size() * kCycleBytes;
  std::uint64_t offset = bucket->file_offset + bucket->written * kCycleBytes;
  while (left > 0) {
    const ssize_t wrote = pwrite(scratch_fd_, from, left, static_cast<off_t>(offset));
    if (wrote < 0) {
      if (errno == EINTR) {
        continue;
      }
      ThrowErrno("writing a scratch file");
    }
    from += wrote;
    left -= static_cast<std::size_t>(wrote);
    offset += static_cast<std::uint64_t>(wrote);
  }
  bucket->written += bucket->pending.size();
  bucket->pending.clear();
}

const rls_rec_cycle& CycleSorter::Next() {
  while (position_ == loaded_.size()) {
    LoadNext();
  }
  return loaded_[position_++];
}

void CycleSorter::LoadNext() {
  position_ = 0;
  if (next_bucket_ == buckets_.size()) {
    ThrowChanged();
  }
  const Bucket& bucket = buckets_[next_bucket_];
  if (scratch_fd_ >= 0 && bucket.written != bucket.cycles) {
    ThrowChanged();
  }
  if (scratch_fd_ >= 0 && bucket.last - bucket.first == 1) {
    const std::uint64_t left = bucket.cycles - streamed_;
    loaded_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, kChunkCycles)));
    ReadScratch(bucket.file_offset + streamed_ * kCycleBytes, loaded_.data(), loaded_.size());
    streamed_ += loaded_.size();
    if (streamed_ == bucket.cycles) {
      streamed_ = 0;
      ++next_bucket_;
    }
    return;
  }
  ++next_bucket_;
  loaded_.resize(bucket.cycles);
  std::uint64_t place = 0;
  for (std::size_t position = bucket.first; position < bucket.last; ++position) {
    next_place_[slots_[position]] = place;
    place += CyclesOf(position);
  }
  if (scratch_fd_ >= 0) {
    LoadFromScratch(bucket);
  } else {
    LoadFromSpool();
  }
}

void CycleSorter::Place(const rls_rec_cycle& cycle) {
  const std::uint32_t slot = scan_.index().Find(cycle.thread_id);
  if (slot == ThreadIndex::kNone) {
    ThrowChanged();
  }
  if (bucket_of_[slot] == kNoBucket) {
    return;
  }
  const std::uint64_t place = next_place_[slot]++;
  if (place >= loaded_.size()) {
    ThrowChanged();
  }
  loaded_[place] = cycle;
}

void CycleSorter::LoadFromSpool() {
  FrameReader reader(scan_.path());
  Frame frame;
  rls_rec_cycle cycle;
  while (reader.Next(&frame)) {
    if (RecordKind(frame) == RLS_REC_CYCLE && ReadCycle(frame, scan_.latest_ns(), &cycle)) {
      Place(cycle);
    }
  }
}

void CycleSorter::LoadFromScratch(const Bucket& bucket) {
  std::vector<rls_rec_cycle> chunk;
  for (std::uint64_t done = 0; done < bucket.cycles; done += chunk.size()) {
    chunk.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(bucket.cycles - done, kChunkCycles)));
    ReadScratch(bucket.file_offset + done * kCycleBytes, chunk.data(), chunk.size());
    for (const rls_rec_cycle& cycle : chunk) {
      Place(cycle);
    }
  }
}

void CycleSorter::ReadScratch(std::uint64_t offset, rls_rec_cycle* cycles, std::size_t count) {
  char* into = reinterpret_cast<char*>(cycles);
  std::size_t left = count * kCycleBytes;
  while (left > 0) {
    const ssize_t got = pread(scratch_fd_, into, left, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      ThrowErrno("reading a scratch file");
    }
    if (got == 0) {
      ThrowChanged();
    }
    into += got;
    left -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

}  // namespace rls
