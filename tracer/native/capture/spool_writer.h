// Appends records to a spool directory (see spool/format.h). A full disk is not an error: what does
// not fit is counted by kind, and writing goes on when there is room again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "bpf/records.h"
#include "capture/live_totals.h"
#include "capture/ring_reader.h"
#include "disk_space.h"
#include "spool/format.h"

namespace rls {

class SpoolWriter {
 public:
  // Creates records.bin and progress.bin in the existing directory; `cpus` rows of ring losses.
  // Throws std::system_error.
  // totals: with it the first segment is made in their place; it sees all that is appended, and has
  // to outlive this.
  SpoolWriter(const std::string& directory, std::uint32_t cpus, LiveTotals* totals = nullptr);
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;
  ~SpoolWriter();

  // From the ring: frames as they are.
  void AppendSpan(const RingSpan& span);
  // Only where the spool is of this generation; else false.
  bool AppendSpan(const RingSpan& span, std::uint64_t generation);
  // From the collector: puts the frame around one record of bpf/records.h.
  template <typename Record>
  void Append(const Record& record) {
    AppendRecord(&record, sizeof(record), record.kind);
  }
  void AppendRecord(const void* record, std::size_t bytes, std::uint16_t kind);

  // Goes on in a new segment, whose number is above those before. False where there is no room for
  // it: then it goes on in the old one. Throws std::system_error where it cannot be made.
  bool Rotate(std::uint64_t number, std::uint64_t missed_runs, std::uint64_t failed_updates);
  // Changes with the segment: what was appended before is in another one.
  std::uint64_t generation() const { return generation_; }
  void SetRingLoss(std::size_t row, const rls_loss& loss);
  void NoteDrained(std::uint64_t ts_ns);
  // Writes down what was counted of the ring, and noted, since the last records.
  void PublishLosses();
  std::uint32_t cpus() const { return cpus_; }

  // Of the segments before this one, written and lost.
  std::uint64_t records_before() const { return records_before_; }
  std::uint64_t lost_before() const { return lost_sum_before_; }
  // Live counters, until the next Rotate(); progress.bin has them as of the last Publish().
  SpoolProgress* progress() { return progress_; }
  // Whatever was done to the file meanwhile, it is whole afterwards. A mapping of it would end us
  // where the target, as the same user, cuts it.
  void Publish();
  rls_loss* ring_loss() { return reinterpret_cast<rls_loss*>(progress_ + 1); }
  // errno of the last failed write; 0 once writing works again.
  int write_error() const { return write_error_; }

 private:
  struct Files {
    int records_fd = -1;
    int progress_fd = -1;
    SpoolProgress* progress = nullptr;
  };

  Files Create(const std::string& suffix);
  void Close(const Files& files);
  void PublishTo(const Files& files, std::size_t bytes);
  bool BeginSegment(Files files, SegmentHeader header, const std::string& keyframe);
  void AddUp();
  bool Write(const char* data, std::size_t bytes);
  void WriteSpan(const RingSpan& span);

  std::mutex mutex_;
  std::string directory_;
  std::uint32_t cpus_;
  std::uint64_t number_ = 0;  // of the segment
  std::uint64_t records_before_ = 0;
  std::uint64_t lost_sum_before_ = 0;
  LiveTotals* totals_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
  std::vector<rls_loss> lost_before_;  // as ring_loss: of the segments before
  DiskSpace disk_;
  int records_fd_ = -1;
  int progress_fd_ = -1;
  int write_error_ = 0;
  std::size_t progress_bytes_ = 0;
  SpoolProgress* progress_ = nullptr;
};

}  // namespace rls
