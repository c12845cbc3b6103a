// Second pass over shim.bin: the push/pop ranges of one thread while it owned slots, part by part.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/file.h"
#include "shim/scan.h"

namespace rls {

// Columns of equal length, in the order in which the ranges ended.
struct ShimRanges {
  std::vector<std::int64_t> start_ns;  // 0: it began before the recording
  std::vector<std::int64_t> end_ns;    // 0: it is not known
  std::vector<std::int32_t> key;
  std::vector<std::uint64_t> payload;
  std::vector<std::uint8_t> payload_type;
  std::vector<std::uint8_t> is_open;
  // Times between which ranges were dropped, in the order of the reports.
  std::vector<std::int64_t> gap_start_ns;
  std::vector<std::int64_t> gap_end_ns;

  std::size_t size() const { return key.size(); }
  bool is_empty() const { return key.empty() && gap_end_ns.empty(); }
};

class ShimRangeReader {
 public:
  // The scan has to outlive it. Throws std::system_error.
  ShimRangeReader(const ShimScan& scan, std::vector<std::size_t> incarnations);

  // At least `count` ranges, and so many more that whatever follows began later than all of them
  // ended; fewer at the end, then none. A thread that never closes its outermost range comes in one
  // part.
  ShimRanges Next(std::size_t count);

 private:
  bool ReadExtent(std::size_t count, ShimRanges* ranges);
  bool OpenExtent();
  void Add(const rls_shim_event& event, ShimRanges* ranges);
  void AddOpen(ShimRanges* ranges);
  void AddGap(const rls_shim_event& event, ShimRanges* ranges);
  const ShimIncarnationData& data() const { return scan_.data(incarnations_[incarnation_]); }

  const ShimScan& scan_;
  std::vector<std::size_t> incarnations_;
  std::size_t incarnation_ = 0;  // of incarnations_: the one that is being read
  ShimFile file_;
  std::vector<char> cells_;  // of the extent that is being read
  std::size_t position_ = 0;
  std::size_t next_extent_ = 0;
  std::uint64_t last_start_ns_ = 0;
};

}  // namespace rls
