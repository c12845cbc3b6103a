// Which ranges the threads of a target spend their time in while they are watched, and what a
// segment of what the shims said has to begin with: made of the blocks that it is given.
//
// The records come from the target, which may write anything: all that is kept is bounded.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/spool.h"

namespace rls {

// The time of a thread in ranges of one name, since it was watched first; times in ns.
struct LivePhase {
  std::uint64_t self_ns = 0;  // in none of the ranges within
  std::uint64_t total_ns = 0;
  std::uint64_t count = 0;          // that have ended
  std::uint64_t last_start_ns = 0;  // of those
  std::uint64_t runs = 0;           // of ranges of this name one behind the other
  std::uint64_t run_start_ns = 0;   // of the last of them
  std::uint64_t steps = 0;          // environment steps that they tell
};

struct LivePhaseRow {
  std::uint32_t pid;
  std::uint32_t tid;
  std::string name;
  bool is_auto;
  LivePhase sums;
};

struct LiveGpuRow {
  std::uint32_t pid;
  std::uint64_t busy_ns;  // of all that its GPUs did, also at the same time
  std::uint64_t count;
};

class LivePhases {
 public:
  // has_sums: else it knows no more than keyframes need.
  explicit LivePhases(bool has_sums) : has_sums_(has_sums) {}

  // The entries of ranges that a slot has open; returns how many.
  using OpenOf = std::function<std::uint32_t(std::uint32_t source, std::uint32_t slot,
                                             rls_shim_open* entries)>;

  void Add(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot, std::string_view data,
           std::string_view more);
  // Its process has ended.
  void Forget(std::uint32_t source);

  std::vector<LivePhaseRow> Phases(std::uint64_t now_ns, const OpenOf& open) const;
  std::vector<LiveGpuRow> Gpu() const;

  // Hands on the blocks that a shim.bin begins with: whose they are, and what names mean.
  using Take = std::function<void(ShimBlockKind kind, std::uint32_t source, std::uint32_t slot,
                                  const std::string& data)>;
  void Keyframe(const Take& take) const;

 private:
  using Name = std::pair<std::uint64_t, std::uint64_t>;  // domain, name: hashes

  struct Slot {
    std::uint32_t owner = 0;                                          // as the process sees it
    std::array<std::uint64_t, RLS_SHIM_MAX_DEPTH + 2> inner_ns = {};  // of ranges that ended, by
                                                                      // depth
    std::array<Name, RLS_SHIM_MAX_DEPTH + 2> last = {};               // by depth
    std::map<Name, LivePhase> phases;
  };

  struct Source {
    std::string facts;  // its ShimSource
    std::uint32_t pid = 0;
    std::uint64_t since_ns = 0;
    std::map<std::uint32_t, std::uint32_t> tids;  // as the process sees them -> as we do
    std::map<std::uint32_t, Slot> slots;
    std::unordered_map<std::uint64_t, std::string> texts;
    std::vector<std::string> reported;  // cells of names, devices and the like
    std::size_t reported_bytes = 0;
    // Cells of start/end ranges under way, with the slot that reported them; by id.
    std::unordered_map<std::uint64_t, std::pair<std::uint32_t, std::string>> started;
    std::string clock;  // cells reported last
    std::string status;
    std::uint64_t gpu_ns = 0;
    std::uint64_t gpu_count = 0;
  };

  void AddCells(Source* source, std::uint32_t slot, std::string_view cells);
  std::size_t AddString(Source* source, std::string_view cells);
  void AddRange(const Source& source, Slot* slot, const rls_shim_event& event);
  bool Tell(Source* source, std::string_view cells);
  LivePhase* PhaseOf(Slot* slot, const Name& name);
  void AddOpen(const Source& source, std::uint64_t now_ns, const rls_shim_open* open,
               std::uint32_t depth, Slot* slot) const;

  const bool has_sums_;
  std::size_t reported_bytes_ = 0;           // of all sources
  std::map<std::uint32_t, Source> sources_;  // by their number; those that have not ended
  std::uint32_t source_count_ = 0;           // that there were
};

}  // namespace rls
