// First pass over shim.bin: which threads wrote, the texts behind the names, what was lost; and all
// that belongs to no thread's stack. The ranges of a thread are read by a second pass, on demand
// and part by part, so that memory does not grow with the recording: see shim/ranges.h.
//
// Nothing here trusts the file: what cannot be read is counted, never an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shim/gpu.h"
#include "shim/spool.h"
#include "shim/texts.h"

namespace rls {

// What tells operations apart, as hashes of texts; 0: none.
struct ShimKey {
  std::uint64_t name;
  std::uint64_t domain;
  std::uint64_t category_name;
  std::uint32_t category_number;  // where the category has no name

  bool operator<(const ShimKey& other) const {
    return std::tie(name, domain, category_name, category_number) <
           std::tie(other.name, other.domain, other.category_name, other.category_number);
  }
};

// An incarnation of a slot: a thread while it owned it. Python sees an array of these.
struct ShimIncarnation {
  std::int64_t first_ns;
  std::int64_t last_ns;  // when the next owner was introduced, or of the last block
  std::uint64_t ranges;  // RANGE and OPEN records
  std::uint64_t gaps;    // times between which some of them were dropped
  std::uint32_t pid;
  std::uint32_t tid;
};

struct ShimAsync {
  std::int64_t start_ns;
  std::int64_t end_ns;  // 0: it was not ended
  std::uint32_t pid;
  std::int32_t key;
};

struct ShimMark {
  std::int64_t ts_ns;
  std::uint32_t incarnation;
  std::int32_t key;
};

struct ShimLosses {
  std::uint64_t dropped_events = 0;
  std::uint64_t dropped_names = 0;
  std::uint64_t interrupted = 0;
  std::uint64_t unbalanced_pops = 0;
  std::uint64_t too_deep = 0;
  std::uint64_t without_slot = 0;
  std::uint64_t refused_children = 0;
  std::uint64_t cross_thread_ends = 0;
  std::uint64_t unmatched_ends = 0;
  std::uint64_t damaged = 0;
  std::uint64_t cut_names = 0;
  std::uint64_t folded_names = 0;  // see ShimTexts
  std::uint64_t unnamed = 0;       // ranges and marks that lost their name: there were too many
  std::uint64_t too_many = 0;      // of marks and start/end ranges
  std::uint64_t bytes_left = 0;    // after the last whole block
  std::int64_t first_ns = 0;       // of those that the shims counted
  ShimRefused refused = {};        // by the collector
};

// Where the records of an incarnation lie in the file.
struct ShimIncarnationData {
  struct Extent {
    std::uint64_t offset;
    std::uint32_t bytes;
  };
  std::uint32_t source;
  std::vector<Extent> extents;
  std::int64_t open_ns = 0;         // of the following
  std::vector<rls_shim_open> open;  // when the recording of the process ended
  rls_shim_event gap = {};          // that no record tells; kind NONE: there is none
};

class ShimScan {
 public:
  // Throws std::system_error where the file cannot be read.
  explicit ShimScan(const std::string& path);

  const std::vector<ShimSource>& sources() const { return sources_; }
  const std::vector<ShimIncarnation>& incarnations() const { return incarnations_; }
  const std::vector<ShimKey>& keys() const { return keys_; }
  const std::vector<ShimAsync>& async() const { return async_; }
  const std::vector<ShimMark>& marks() const { return marks_; }
  const ShimLosses& losses() const { return losses_; }
  const ShimGpu& gpu() const { return gpu_; }
  // Records of any kind that were read.
  std::uint64_t records() const { return records_; }
  // ARGB of the first range of each key; 0: none.
  const std::vector<std::uint32_t>& colors() const { return colors_; }
  // nullptr: the text was lost.
  const std::string* Text(std::uint64_t hash) const { return texts_.Find(hash); }
  // Whether the text is only the beginning of what it was.
  bool IsCut(std::uint64_t hash) const { return texts_.IsCut(hash); }

  // For the second pass.
  const std::string& path() const { return path_; }
  const ShimIncarnationData& data(std::size_t incarnation) const {
    return incarnation_data_.at(incarnation);
  }
  // -1: it was never seen.
  std::int32_t FindKey(std::uint32_t source, const rls_shim_event& event) const;

 private:
  struct Slot {
    std::uint32_t incarnation = UINT32_MAX;
    std::map<std::uint32_t, std::uint32_t> incarnations;  // by owner: its last one
    std::map<std::uint32_t, rls_shim_gap> strangers;      // by owner: of those never introduced
    bool has_first = false;
    ShimCounters first = {};
    ShimCounters last = {};
  };
  using SlotId = std::pair<std::uint32_t, std::uint32_t>;  // source, slot

  void ReadBlock(const ShimBlock& block, std::uint64_t offset, const char* data);
  template <typename Payload>
  bool IsWhole(const ShimBlock& block);
  void SkipSources(const ShimBlock& block, const char* data);
  void ReadSource(const ShimBlock& block, const char* data);
  void ReadCounters(const ShimBlock& block, const char* data);
  void ReadOpen(const ShimBlock& block, const char* data);
  void ReadCells(const ShimBlock& block, std::uint64_t offset, const char* data);
  void ReadCell(const ShimBlock& block, const char* cell);
  std::uint32_t ReadString(const char* cell, std::uint32_t left);
  void ReadCategory(std::uint32_t source, const char* cell);
  struct Started {
    ShimAsync range;
    std::uint32_t incarnation;
  };
  void ReadStart(const ShimBlock& block, const rls_shim_event& event);
  void ReadEnd(const ShimBlock& block, const rls_shim_event& event);
  void AddAsync(const Started& started, std::int64_t end_ns, std::uint32_t incarnation);
  void AddUnended();
  void ReadMark(const ShimBlock& block, const rls_shim_event& event);
  void Introduce(const ShimBlock& block, const char* cell);
  std::uint32_t OuterTid(std::uint32_t source, std::uint32_t inner_tid) const;
  void PlaceGaps(Slot* slot);
  void AddStrangers();
  void SetGap(std::uint32_t incarnation, const rls_shim_gap& gap);
  void AddLosses();
  ShimKey KeyOf(std::uint32_t source, const rls_shim_event& event) const;
  std::int32_t Intern(std::uint32_t source, const rls_shim_event& event);

  std::string path_;
  std::vector<ShimSource> sources_;
  std::vector<ShimIncarnation> incarnations_;
  std::vector<ShimIncarnationData> incarnation_data_;
  std::map<SlotId, Slot> slots_;
  std::map<std::uint32_t, std::pair<ShimLost, ShimLost>> lost_;  // by source: first, last
  ShimTexts texts_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, std::uint64_t>
      categories_;  // source, domain, number -> name
  std::map<ShimKey, std::int32_t> key_index_;
  std::vector<ShimKey> keys_;
  std::vector<std::uint32_t> colors_;
  // By source and id.
  std::map<std::pair<std::uint32_t, std::uint64_t>, Started> started_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::pair<std::int64_t, std::uint32_t>>
      ended_early_;  // end_ns, incarnation
  std::vector<ShimAsync> async_;
  std::vector<ShimMark> marks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> tids_;  // source, inner -> ours
  ShimGpu gpu_;
  ShimLosses losses_;
  ShimRefused refused_before_ = {};
  std::uint64_t records_ = 0;
};

}  // namespace rls
