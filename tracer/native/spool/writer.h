// Appends records to a spool directory (see spool/format.h). A full disk is not an error: what does
// not fit is counted by kind, and writing goes on when there is room again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "bpf/records.h"
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

  // Live counters, shared with whoever reads progress.bin.
  SpoolProgress* progress() { return progress_; }
  rls_loss* ring_loss() { return reinterpret_cast<rls_loss*>(progress_ + 1); }
  // errno of the last failed write; 0 once writing works again.
  int write_error() const { return write_error_; }

 private:
  bool Write(const char* data, std::size_t bytes);

  std::mutex mutex_;
  DiskSpace disk_;
  int records_fd_ = -1;
  int write_error_ = 0;
  std::size_t progress_bytes_ = 0;
  SpoolProgress* progress_ = nullptr;
};

}  // namespace rls
