// One event of a Chrome trace, as far as a trace database has a place for it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "decimal_time.h"

namespace rls {

constexpr std::int64_t kMissing = std::numeric_limits<std::int64_t>::min();

// Times beyond it, 146 years, are damage; sums of two that are not beyond it do not overflow.
constexpr std::int64_t kMaxTimeNs = (std::int64_t{1} << 62) - 1;

struct KinetoEvent {
  std::string phase;
  std::string category;
  std::string name;
  std::string pid;
  std::string tid;
  std::optional<ExactInteger> ts_ns;
  std::optional<ExactInteger> duration_ns;
  // Of args; kMissing where they are not given.
  std::string args_name;
  std::string collective, process_group, group_ranks;
  std::int64_t correlation;
  std::int64_t device;
  std::int64_t context;
  std::int64_t stream;
  std::int64_t event_stream;       // where an event that is waited for was recorded
  std::int64_t event_correlation;  // of the call that recorded it
  std::int64_t bytes;
  std::int64_t graph;
  std::int64_t graph_node;
  std::int64_t group_size, sequence;  // of the process group, and of the collective in it

  void clear() {
    for (std::string* text : {&phase, &category, &name, &pid, &tid, &args_name, &collective,
                              &process_group, &group_ranks}) {
      text->clear();
    }
    ts_ns.reset();
    duration_ns.reset();
    correlation = device = context = stream = kMissing;
    event_stream = event_correlation = bytes = graph = graph_node = kMissing;
    group_size = sequence = kMissing;
  }
};

}  // namespace rls
