#include "spool/wait_kind.h"

namespace rls {
namespace {

// Numbers of system calls, as in bpf/btf_reason.h, which names those with a detail.
constexpr unsigned kPoll = 7;
constexpr unsigned kSelect = 23;
constexpr unsigned kPause = 34;
constexpr unsigned kNanosleep = 35;
constexpr unsigned kVfork = 58;
constexpr unsigned kWait4 = 61;
constexpr unsigned kSemop = 65;
constexpr unsigned kFlock = 73;
constexpr unsigned kRtSigtimedwait = 128;
constexpr unsigned kRtSigsuspend = 130;
constexpr unsigned kSync = 162;
constexpr unsigned kFutex = 202;
constexpr unsigned kIoGetevents = 208;
constexpr unsigned kSemtimedop = 220;
constexpr unsigned kClockNanosleep = 230;
constexpr unsigned kEpollWait = 232;
constexpr unsigned kWaitid = 247;
constexpr unsigned kPselect6 = 270;
constexpr unsigned kPpoll = 271;
constexpr unsigned kSyncFileRange = 277;
constexpr unsigned kEpollPwait = 281;
constexpr unsigned kEpollPwait2 = 441;
constexpr unsigned kFutexWaitv = 449;
constexpr unsigned kFutexWait = 455;

constexpr std::uint64_t kDetailMask = (std::uint64_t{1} << 48) - 1;

unsigned CallOf(std::uint64_t reason) { return static_cast<unsigned>(reason >> 48) - 1; }

WaitKind OfFile(std::uint64_t detail) {
  switch (detail >> 44) {
    case RLS_FILE_PIPE:
      return WaitKind::kPipe;
    case RLS_FILE_SOCKET:
      return WaitKind::kSocket;
    case RLS_FILE_DISK:
      return WaitKind::kIo;
    case RLS_FILE_EVENT:
      return WaitKind::kPoll;
    default:
      return WaitKind::kNone;
  }
}

WaitKind OfFutex(std::uint64_t address, std::int64_t ts_ns, const std::vector<GilRange>& gil) {
  const GilRange* range = gil.empty() ? nullptr : &gil.front();
  for (const GilRange& later : gil) {
    if (later.from_ns <= ts_ns) range = &later;
  }
  const bool is_gil = range != nullptr && address >= range->start && address < range->end;
  return is_gil ? WaitKind::kGil : WaitKind::kLock;
}

// poll and select: without files they only sleep, with one they wait for that.
WaitKind OfFiles(std::uint64_t detail) {
  if ((detail & UINT32_MAX) == 0) return WaitKind::kSleep;
  const WaitKind only = OfFile(detail);
  return only == WaitKind::kNone ? WaitKind::kPoll : only;
}

WaitKind KindOf(std::uint64_t reason, std::int64_t ts_ns, const std::vector<GilRange>& gil) {
  const std::uint64_t detail = reason & kDetailMask;
  switch (CallOf(reason)) {
    case kFutex:
    case kFutexWait:
      return OfFutex(detail & ~RLS_REASON_MUTEX, ts_ns, gil);
    case kFutexWaitv:
    case kSemop:
    case kSemtimedop:
    case kFlock:
      return WaitKind::kLock;
    case kPoll:
    case kPpoll:
    case kSelect:
    case kPselect6:
      return OfFiles(detail);
    case kEpollWait:
    case kEpollPwait:
    case kEpollPwait2:
      return WaitKind::kPoll;
    case kPause:
    case kNanosleep:
    case kClockNanosleep:
    case kRtSigsuspend:
    case kRtSigtimedwait:
      return WaitKind::kSleep;
    case kVfork:
    case kWait4:
    case kWaitid:
      return WaitKind::kProcess;
    case kSync:
    case kIoGetevents:
    case kSyncFileRange:
      return WaitKind::kIo;
    default:
      return OfFile(detail);
  }
}

}  // namespace

Wait WaitOf(std::uint64_t reason, std::int64_t ts_ns, const std::vector<GilRange>& gil) {
  if (reason == 0) return {};
  const WaitKind kind = KindOf(reason, ts_ns, gil);
  const unsigned call = CallOf(reason);
  if (kind != WaitKind::kLock || (call != kFutex && call != kFutexWait)) {
    return {kind, 0, call == kFlock};
  }
  const bool is_mutex = (reason & RLS_REASON_MUTEX) != 0;
  return {kind, static_cast<std::int64_t>(reason & kDetailMask & ~RLS_REASON_MUTEX), is_mutex};
}

}  // namespace rls
