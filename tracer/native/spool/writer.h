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
  SpoolWriter(const std::string& directory, std::uint32_t cpus);
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;
  ~SpoolWriter();

  // From the ring: frames as they are.
  void AppendSpan(const RingSpan& span);
  // From the collector: puts the frame around one record of bpf/records.h.
  template <typename Record>
  void Append(const Record& record) {
    AppendRecord(&record, sizeof(record), record.kind);
  }
  void AppendRecord(const void* record, std::size_t bytes, std::uint16_t kind);

  // From here on `totals`, which has to outlive this, sees all that is appended, and nothing is
  // written until Keep().
  void Watch(LiveTotals* totals);
  // Writes from here on: what the spool has to begin with, and then all that is appended. Losses
  // before are none of it.
  void Keep();
  // Changes when what was appended before is not in the spool.
  std::uint64_t generation() const { return generation_; }
  void SetRingLoss(std::size_t row, const rls_loss& loss);

  // Live counters, shared with whoever reads progress.bin.
  SpoolProgress* progress() { return progress_; }
  rls_loss* ring_loss() { return reinterpret_cast<rls_loss*>(progress_ + 1); }
  // errno of the last failed write; 0 once writing works again.
  int write_error() const { return write_error_; }

 private:
  bool Write(const char* data, std::size_t bytes);
  void WriteSpan(const RingSpan& span);

  std::mutex mutex_;
  LiveTotals* totals_ = nullptr;
  bool keeps_ = true;
  std::atomic<std::uint64_t> generation_{0};
  std::vector<rls_loss> lost_before_;  // as ring_loss: when nothing was kept
  DiskSpace disk_;
  int records_fd_ = -1;
  int write_error_ = 0;
  std::size_t progress_bytes_ = 0;
  SpoolProgress* progress_ = nullptr;
};

}  // namespace rls
