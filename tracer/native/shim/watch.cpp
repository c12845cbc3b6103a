#include "shim/watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>

#include "clock.h"
#include "procfs_ids.h"
#include "shim/file.h"

namespace rls {
namespace {

constexpr std::uint64_t kCallKinds = (1ULL << RLS_SHIM_GPU_DRIVER) | (1ULL << RLS_SHIM_GPU_RUNTIME);

constexpr std::uint64_t kTimeShare = 10;
constexpr std::uint64_t kMaxDebtNs = 500'000'000;
// That are remembered as reported: beyond, they are reported again.
constexpr std::size_t kMaxTids = 65536;

// Of threads, in what a ring holds at a time: no program has so many at work.
constexpr std::size_t kMaxLooks = 4096;

// Records that name a thread all do so at one place.
static_assert(offsetof(rls_shim_thread, tid) == offsetof(rls_shim_gpu_call, tid) &&
              offsetof(rls_shim_thread, tid) == offsetof(rls_shim_gpu_overhead, tid));

const char* CellAt(const ShimSpan& span, std::size_t offset) {
  return offset < span.first_bytes ? span.first + offset
                                   : span.second + (offset - span.first_bytes);
}

bool HasTask(std::uint32_t pid, std::uint32_t tid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid);
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

std::vector<ShimTid> ShimWatch::Look(const ShimSpan& span) {
  std::vector<ShimTid> reported;
  std::set<std::uint32_t> seen;
  std::set<std::uint32_t> introduced;
  std::optional<Tids> now;
  std::size_t offset = 0;
  introduced_ = 0;
  while (offset + RLS_SHIM_CELL_BYTES <= span.bytes()) {
    const char* cell = CellAt(span, offset);
    const std::uint16_t kind = KindOf(cell);
    offset += RLS_SHIM_CELL_BYTES;
    if (kind == RLS_SHIM_THREAD) introduced_ = As<rls_shim_thread>(cell).tid;
    if (kind == RLS_SHIM_STRING) {
      const std::size_t left = span.bytes() - offset + RLS_SHIM_CELL_BYTES;
      offset += (CellsOfString(cell, left) - 1) * RLS_SHIM_CELL_BYTES;
    } else if (kind == RLS_SHIM_GPU_STATUS) {
      LookAtStatus(As<rls_shim_gpu_status>(cell));
    } else if (is_nested_ && (kind == RLS_SHIM_THREAD || kind == RLS_SHIM_GPU_CALL ||
                              kind == RLS_SHIM_GPU_OVERHEAD)) {
      const std::uint32_t inner = As<rls_shim_thread>(cell).tid;
      std::set<std::uint32_t>& looked_at = kind == RLS_SHIM_THREAD ? introduced : seen;
      // Each look is work for us, which the process chooses: see kMaxLooks.
      if (looked_at.size() >= kMaxLooks || !looked_at.insert(inner).second) continue;
      const std::uint32_t tid = NewTid(kind, inner, &now);
      if (tid != 0) reported.push_back({inner, tid});
    }
  }
  return reported;
}

void ShimWatch::LookAtStatus(const rls_shim_gpu_status& status) {
  const bool has_calls = (status.recorded & kCallKinds) != 0;
  gpu_state_ = status.state == RLS_SHIM_GPU_ON && !has_calls
                   ? static_cast<std::uint16_t>(RLS_SHIM_GPU_REFUSED)
                   : status.state;
}

// A thread that writes its first record is always reported. Records of the GPU name threads that
// may never have written one: each is reported once, and again when that id has become another
// thread's.
std::uint32_t ShimWatch::NewTid(std::uint16_t kind, std::uint32_t inner, std::optional<Tids>* now) {
  if (inner == 0) return 0;
  const auto reported = tids_.find(inner);
  if (kind != RLS_SHIM_THREAD && reported != tids_.end() && HasTask(pid_, reported->second))
    return 0;
  if (!now->has_value()) *now = List();
  const auto found = (*now)->find(inner);
  if (found == (*now)->end()) return 0;
  if (tids_.size() >= kMaxTids) tids_.clear();
  tids_[inner] = found->second;
  return found->second;
}

// The process chooses which ids it names, and how many threads it has: what is looked up for it
// takes a tenth of the time at most, and half a second more. None: not now.
ShimWatch::Tids ShimWatch::List() {
  const std::uint64_t begin_ns = MonotonicNs();
  debt_ns_ -= std::min(debt_ns_, (begin_ns - listed_ns_) / kTimeShare);
  listed_ns_ = begin_ns;
  if (debt_ns_ > kMaxDebtNs) return {};
  ++listings_;
  Tids tids = TidsByInner(pid_);
  debt_ns_ += MonotonicNs() - begin_ns;
  return tids;
}

}  // namespace rls
