#include "shim_watch.h"

#include <unistd.h>

#include <cstddef>
#include <set>
#include <string>

#include "procfs_ids.h"
#include "shim_file.h"

namespace rls {
namespace {

constexpr std::uint64_t kCallKinds = (1ULL << RLS_SHIM_GPU_DRIVER) | (1ULL << RLS_SHIM_GPU_RUNTIME);

// Records that name a thread all do so at one place.
static_assert(offsetof(rls_shim_thread, tid) == offsetof(rls_shim_gpu_call, tid) &&
              offsetof(rls_shim_thread, tid) == offsetof(rls_shim_gpu_overhead, tid));

const char* CellAt(const ShimStretch& stretch, std::size_t offset) {
  return offset < stretch.first_bytes ? stretch.first + offset
                                      : stretch.second + (offset - stretch.first_bytes);
}

bool HasTask(std::uint32_t pid, std::uint32_t tid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid);
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

std::vector<ShimTid> ShimWatch::Look(const ShimStretch& stretch) {
  std::vector<ShimTid> told;
  std::set<std::uint32_t> seen;
  std::size_t offset = 0;
  while (offset + RLS_SHIM_CELL_BYTES <= stretch.bytes()) {
    const char* cell = CellAt(stretch, offset);
    const std::uint16_t kind = KindOf(cell);
    offset += RLS_SHIM_CELL_BYTES;
    if (kind == RLS_SHIM_STRING) {
      const std::uint32_t length = As<rls_shim_string>(cell).length;
      if (length <= RLS_SHIM_MAX_TEXT) offset += (CellsOf(length) - 1) * RLS_SHIM_CELL_BYTES;
    } else if (kind == RLS_SHIM_GPU_STATUS) {
      LookAtStatus(As<rls_shim_gpu_status>(cell));
    } else if (is_nested_ && (kind == RLS_SHIM_THREAD || kind == RLS_SHIM_GPU_CALL ||
                              kind == RLS_SHIM_GPU_OVERHEAD)) {
      const std::uint32_t inner = As<rls_shim_thread>(cell).tid;
      if (kind != RLS_SHIM_THREAD && !seen.insert(inner).second) continue;
      const std::uint32_t tid = NewTid(kind, inner);
      if (tid != 0) told.push_back({inner, tid});
    }
  }
  return told;
}

void ShimWatch::LookAtStatus(const rls_shim_gpu_status& status) {
  const bool has_calls = (status.recorded & kCallKinds) != 0;
  gpu_state_ = status.state == RLS_SHIM_GPU_ON && !has_calls
                   ? static_cast<std::uint16_t>(RLS_SHIM_GPU_REFUSED)
                   : status.state;
}

// A thread that writes its first record is always told. Records of the GPU name threads that may
// never have written one: each is told once, and again when that id has become another thread's.
std::uint32_t ShimWatch::NewTid(std::uint16_t kind, std::uint32_t inner) {
  if (inner == 0) return 0;
  std::uint32_t& told = tids_[inner];
  if (kind != RLS_SHIM_THREAD && told != 0 && HasTask(pid_, told)) return 0;
  const std::uint32_t tid = TidOfInner(pid_, inner);
  if (tid != 0) told = tid;
  return tid;
}

}  // namespace rls
