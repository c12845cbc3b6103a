// What the collector learns from the records of a process while it hands them on: ids of threads
// that nobody could tell later, and whether its GPU activity is recorded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "shim/memory.h"

namespace rls {

class ShimWatch {
 public:
  // is_nested: the process sees other ids of its threads than the recorder does.
  ShimWatch(std::uint32_t pid, bool is_nested) : pid_(pid), is_nested_(is_nested) {}

  // Looks at records before they are written; returns the ids of threads to be reported before
  // them.
  std::vector<ShimTid> Look(const ShimSpan& span);
  // The thread that was introduced last in what was looked at last, by its own id; 0: none was.
  std::uint32_t introduced() const { return introduced_; }
  // It could not be reported after all.
  void Forget(const ShimTid& tid) { tids_.erase(tid.inner_tid); }
  // How often the threads of the process were listed.
  std::uint64_t listings() const { return listings_; }

  // enum rls_shim_gpu_state; 0: the process has not said. One whose calls CUPTI does not tell
  // counts as refused.
  std::uint16_t gpu_state() const { return gpu_state_; }

 private:
  using Tids = std::map<std::uint32_t, std::uint32_t>;  // inner -> ours

  void LookAtStatus(const rls_shim_gpu_status& status);
  // 0: there is nothing to tell. `now`: the threads, once they were listed.
  std::uint32_t NewTid(std::uint16_t kind, std::uint32_t inner, std::optional<Tids>* now);
  Tids List();

  std::uint32_t pid_;
  bool is_nested_;
  std::uint16_t gpu_state_ = 0;
  std::uint32_t introduced_ = 0;
  Tids tids_;  // as reported
  std::uint64_t listings_ = 0;
  std::uint64_t debt_ns_ = 0;  // time that listing took, less a share of the time since
  std::uint64_t listed_ns_ = 0;
};

}  // namespace rls
