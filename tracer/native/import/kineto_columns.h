// The events of a Kineto file as columns: what a trace database stores, and counts of the rest.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import_limits.h"
#include "kineto_event.h"

namespace rls {

// Texts, numbered from 0 in the order in which they came, up to a limit.
class TextTable {
 public:
  static constexpr std::int32_t kFull = -1;

  TextTable(std::size_t max_count, std::size_t max_bytes)
      : max_count_(max_count), max_bytes_(max_bytes) {}

  // The number of a text; kFull where it is new and there is no place for it.
  std::int32_t id_of(std::string_view text);
  // The same, for a text that there is always a place for.
  std::int32_t extra_id_of(std::string_view text);
  const std::deque<std::string>& texts() const { return texts_; }

 private:
  std::size_t max_count_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::deque<std::string> texts_;  // its elements stay where they are
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

// In the order of the names in kineto_rows.py.
enum class Role : std::uint8_t {
  kOperation,
  kCpuOp,
  kPythonFunction,
  kCall,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,
  kNone,
};

// Slices of one kind of table, as columns. Ids count from 0.
struct SliceColumns {
  std::vector<std::uint8_t> role;
  std::vector<std::int32_t> thread, name;
  std::vector<std::int64_t> start_ns, end_ns;
};
struct CallColumns : SliceColumns {
  std::vector<std::int64_t> correlation;
};
struct ActivityColumns : CallColumns {
  std::vector<std::int64_t> device, context, stream, bytes, graph;
  std::vector<std::int64_t> event_stream, event_correlation;
  std::vector<std::int32_t> collective;  // -1: none
  std::vector<std::int64_t> group_size, sequence;
};

struct Count {
  std::int64_t count = 0;
  std::int64_t first_ns = kMissing;  // of the earliest whose time is known
  void add(std::int64_t ts_ns);
};

class KinetoColumns {
 public:
  void add(const KinetoEvent& event);
  // Pairs begins with ends; to be called once, after the last event.
  void finish();

  SliceColumns ranges;
  CallColumns calls;
  ActivityColumns activities;
  TextTable names{kMaxNames, kMaxNamesBytes};
  TextTable threads{kMaxThreads, kMaxThreadsBytes};                // pid, a NUL, tid
  TextTable collectives{kMaxCollectives, kMaxCollectivesBytes};    // name, process group, ranks
  std::vector<std::pair<std::string, std::string>> process_names;  // pid, name
  std::vector<std::pair<std::string, std::string>> thread_names;   // pid, a NUL, tid; name
  std::map<std::pair<std::string, std::string>, Count> skipped;    // by phase and category
  Count further_kinds;                   // skipped, of kinds beyond kMaxSkippedKinds
  Count further_collectives;             // kernels whose collective has no place
  Count further_names;                   // events whose name is not kept: there are too many others
  Count further_threads;                 // events of threads beyond kMaxThreads: left out
  std::int64_t further_owner_names = 0;  // names of processes and threads that are not kept
  Count unreadable;   // a time, a pid or a tid is missing, or no number where it has to be one
  Count rounded;      // times with digits below the nanosecond
  Count never_ended;  // B without an E
  Count never_begun;  // E without a B
  std::int64_t event_count = 0;
  std::int64_t known_phase_count = 0;

 private:
  struct Slice {
    Role role;
    std::int32_t skipped_kind;
    std::int32_t thread, name;
    std::int64_t start_ns, end_ns, correlation, device, context, stream, bytes, graph;
    std::int64_t event_stream, event_correlation;
    std::int32_t collective;
    std::int64_t group_size, sequence;
  };
  struct HalfSlice {
    bool is_begin;
    Slice slice;
  };

  void add_complete(const KinetoEvent& event);
  void add_half(const KinetoEvent& event);
  void add_metadata(const KinetoEvent& event);
  void skip(std::string_view phase, std::string_view category, std::int64_t ts_ns);
  bool has_room_for_owner_name(const KinetoEvent& event);
  void store(const Slice& slice, const char* phase);
  bool fill(const KinetoEvent& event, Slice& slice);
  std::int32_t thread_of(const KinetoEvent& event);
  std::int32_t name_of(const KinetoEvent& event);
  std::int32_t collective_of(const KinetoEvent& event, Role role);

  std::vector<HalfSlice> halves_;
  // Categories without a place of events that are to be paired.
  TextTable half_categories_{kMaxSkippedKinds, kMaxSkippedKinds* kMaxSkippedBytes};
  std::size_t owner_names_bytes_ = 0;
  std::string thread_key_;
  std::string collective_key_;
  std::string last_thread_key_;
  std::int32_t last_thread_ = -1;
};

}  // namespace rls
