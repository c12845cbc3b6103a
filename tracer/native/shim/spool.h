// shim.bin in a spool: what the collector read from the shims of the target's processes.
//
// ShimSpoolHeader, then blocks: a ShimBlock and so many bytes of payload. A block is written whole
// or not at all; one cut short at the end is what a kill leaves. The cells of a block are whole
// records of cupti/records.h.
//
// Where only the last seconds of a recording are kept, there are segments in its place, shim-N.bin:
// a ShimSegmentHeader, and blocks as above, of which the first tell what was so when it began. They
// go with the segments of the records: see spool/format.h.
#pragma once

#include <cstdint>

#include "cupti/records.h"

namespace rls {

constexpr std::uint64_t kShimSpoolMagic = 0x314d494853534cULL;  // "LSSHIM1"
constexpr std::uint32_t kShimBlockMagic = 0x4b4c4253;           // "SBLK"

struct ShimSpoolHeader {
  std::uint64_t magic;
  std::uint32_t version;  // RLS_SHIM_VERSION
  std::uint32_t header_bytes;
};
static_assert(sizeof(ShimSpoolHeader) == 16, "shim spool header size");

constexpr std::uint64_t kShimSegmentMagic = 0x314d4745534853ULL;  // "SHSEGM1"

struct ShimSegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t number;
  std::uint64_t previous;        // number of the segment before; of the first: its own
  std::uint64_t keyframe_bytes;  // behind this header
};
static_assert(sizeof(ShimSegmentHeader) == 40, "shim segment header size");

enum class ShimBlockKind : std::uint16_t {
  kSource = 1,    // ShimSource: the memory of a process was found
  kCells = 2,     // records from the ring of a slot
  kCounters = 3,  // ShimCounters of a slot
  kOpen = 4,      // rls_shim_open entries: ranges that are open at ts_ns, the outermost first
  kTid = 5,       // ShimTid
  kLost = 6,      // ShimLost: of the process, outside any slot
  kGpuRest = 7,   // std::uint32_t: buffers that CUPTI held when the process, or we, ended
  kRefused = 8,   // ShimRefused: of the recording; source and slot are 0
  // What had been lost when a recording, or a segment of one, began: as kCounters, kLost, kRefused.
  kCountersBefore = 9,
  kLostBefore = 10,
  kRefusedBefore = 11,
  kEnded = 12,  // ShimEnded
};

struct ShimBlock {
  std::uint32_t magic;
  ShimBlockKind kind;
  std::uint16_t slot;
  std::uint32_t source;  // counted from 0 in the order of their kSource blocks
  std::uint32_t bytes;
  std::uint64_t ts_ns;
};
static_assert(sizeof(ShimBlock) == 24, "shim block size");

struct ShimSource {
  std::uint32_t pid;        // as the recorder sees it
  std::uint32_t inner_pid;  // as the process sees it; differs in a pid namespace
  std::uint64_t created_ns;
  std::uint32_t reader;  // of which incarnation of the memory we are the reader: 1 is the first
  std::uint32_t reserved;
};

// The first six never go down: what a recording lost is the last value less the first.
// Of so many sources, whose numbers come next, nothing is reported any more.
struct ShimEnded {
  std::uint32_t count;
  std::uint32_t reserved;
};

struct ShimCounters {
  std::uint64_t dropped_events;
  std::uint64_t dropped_names;
  std::uint64_t interrupted;
  std::uint64_t unbalanced_pops;
  std::uint64_t too_deep;
  std::uint64_t first_loss_ns;
  rls_shim_gap gap;  // not reported by a GAP record yet
  rls_shim_gap former;
};

struct ShimLost {
  std::uint64_t events;
  std::uint64_t first_ns;
  std::uint64_t refused_children;
};

// What the collector did not take, so far: the last block tells.
struct ShimRefused {
  std::uint64_t damaged;    // times the positions of a ring made no sense: unknown records
  std::uint64_t limited;    // times a ring was left full: its process had written too much
  std::uint64_t no_room;    // times there was no room on the disk for the records of a ring
  std::uint64_t memories;   // of processes, beyond those that are kept
  std::uint64_t strangers;  // announcements of processes that do not belong to the target
  std::uint64_t first_ns;   // of any of the above but the last
};

struct ShimTid {
  std::uint32_t inner_tid;
  std::uint32_t tid;
};

}  // namespace rls
