// The spool on disk: what the drain writes while recording and the decoder reads afterwards.
//
// A spool is a directory:
//   session.json  how the recording was made (written once, before the first record)
//   records.bin   SpoolHeader, then frames exactly as the BPF ring holds them (see bpf/records.h)
//   progress.bin  SpoolProgress, written over by the drain again and again; its blocks are
//                 allocated up front, so it is right also after kill -9 and on a full disk
//
// A recording of which only the last seconds are kept has segments in place of the last two, and
// drops the oldest of them: records-N.bin, progress-N.bin. A segment begins with a SegmentHeader
// and frames that tell what was so when it began; it can be read without those before it. N grows,
// and may leave numbers out.
//
// A frame cut short at the end of records.bin is what a kill or a full disk leaves: it is counted,
// never an error.
#pragma once

#include <cstdint>

#include "bpf/records.h"

namespace rls {

constexpr std::uint64_t kSpoolMagic = 0x314c4f4f5053534cULL;    // "LSSPOOL1"
constexpr std::uint64_t kProgressMagic = 0x3247525053534cULL;   // "LSSPRG2"
constexpr std::uint64_t kSegmentMagic = 0x314d4745534c4c53ULL;  // "SLLSEGM1"
constexpr std::uint32_t kMaxLossCpus = 4096;

constexpr std::uint32_t kFrameHeaderBytes = 8;
constexpr std::uint32_t kFrameBusy = 1U << 31;
constexpr std::uint32_t kFrameDiscarded = 1U << 30;
constexpr std::uint32_t kFrameLengthMask = kFrameDiscarded - 1;

struct SpoolHeader {
  std::uint64_t magic;
  std::uint32_t wire_version;
  std::uint32_t header_bytes;
};
static_assert(sizeof(SpoolHeader) == 16, "spool header size");

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t wire_version;
  std::uint32_t header_bytes;
  std::uint64_t number;
  std::uint64_t previous;        // number of the segment before; of the first: its own
  std::uint64_t cut_ns;          // what was so at this time is reported first
  std::uint64_t keyframe_bytes;  // behind this header
  std::uint64_t missed_runs;     // until then: as in SpoolProgress
  std::uint64_t failed_updates;
};
static_assert(sizeof(SegmentHeader) == 64, "segment header size");

struct SpoolProgress {
  std::uint64_t magic;
  std::uint32_t wire_version;
  std::uint32_t cpus;                    // rows of ring_loss in use
  std::uint64_t records[RLS_REC_KINDS];  // written to records.bin, by kind
  std::uint64_t bytes;                   // of records.bin that hold whole frames
  std::uint64_t drained_ns;              // when the ring was last emptied
  std::uint64_t end_ns;                  // end of the trace; 0 while recording, or after a kill
  rls_loss spool_loss[RLS_REC_KINDS];    // read from the ring, but the disk was full
  std::uint64_t missed_runs;     // times the OS kernel skipped one of our programs (recursion)
  std::uint64_t failed_updates;  // threads that could not be entered into the filter
  std::uint64_t end_check;       // ~end_ns: one that is damaged must not cut the trace
  // Followed by rls_loss ring_loss[cpus][RLS_REC_KINDS]: records that found the ring full.
};
static_assert(sizeof(SpoolProgress) == 8 * (2 + RLS_REC_KINDS + 3 + 2 * RLS_REC_KINDS + 3),
              "spool progress size");

}  // namespace rls
