// What a thread waited for, from the system call that it slept in (RLS_REASON of bpf/records.h).
#pragma once

#include <cstdint>
#include <vector>

#include "bpf/records.h"

namespace rls {

// The codes of wait_coded.kind; kNone makes no row.
enum class WaitKind : std::uint8_t {
  kNone = 0,
  kGil = 1,
  kGpu = 2,
  kIo = 3,
  kLock = 4,
  kPipe = 5,
  kSocket = 6,
  kSleep = 7,
  kPoll = 8,
  kProcess = 9,
};

// Where the interpreter of a process keeps its GIL, from an instant on; [0, 0): it has none.
struct GilRange {
  std::int64_t from_ns;
  std::uint64_t start;
  std::uint64_t end;
};

struct Wait {
  WaitKind kind = WaitKind::kNone;
  std::int64_t lock_address = 0;  // tells a lock from others; 0: it is none, or not known which
  bool is_mutex = false;          // one thread has it at a time, and gives it back
};

// `gil`: of the process of the thread, sorted by from_ns. A wait before the first of them, which is
// found some time after the process began, is judged by the first.
Wait WaitOf(std::uint64_t reason, std::int64_t ts_ns, const std::vector<GilRange>& gil);

}  // namespace rls
