// Third pass over a spool: what is neither a thread nor a state of one (calls, samples, who else
// had a CPU, ...), as columns, batch by batch.
//
// In the order of the spool: the database sorts. What lies after the end of the trace is left out,
// what reaches over it is cut there. Rows of threads of which nothing else is reported are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "spool/scan.h"

namespace rls {

struct CallColumns {
  std::vector<std::int32_t> thread_id;
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  std::vector<std::uint8_t> layer;
  std::vector<std::uint8_t> parent_layer;
  std::vector<std::uint16_t> depth;
  std::vector<std::int32_t> site_id;
  std::vector<std::uint8_t> flags;
};

struct ReleaseColumns {
  std::vector<std::int32_t> thread_id;
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
};

struct SampleColumns {
  std::vector<std::int32_t> thread_id;
  std::vector<std::int64_t> ts_ns;
  std::vector<std::uint8_t> layer;
  std::vector<std::uint8_t> flags;
  std::vector<std::int32_t> stack_id;  // 0: none
};

// Stays of programs outside the trace on a CPU.
struct OtherRunColumns {
  std::vector<std::int16_t> cpu;
  std::vector<std::int64_t> start_ns;
  std::vector<std::int64_t> end_ns;
  std::vector<std::int32_t> program_id;
};

// A program outside the trace; a pid that another program has later is another one.
struct OtherProgram {
  std::int32_t program_id;
  std::uint32_t pid;
  std::string name;
};

// Since when threads wait for the CPU quota of their cgroup.
struct QuotaColumns {
  std::vector<std::int32_t> thread_id;
  std::vector<std::int64_t> ts_ns;
};

// Messages that came while their reader waited for a CPU.
struct MessageColumns {
  std::vector<std::int32_t> thread_id;
  std::vector<std::int64_t> read_ns;
  std::vector<std::int64_t> sent_ns;
  std::vector<std::int32_t> sender_thread_id;
  std::vector<std::uint8_t> file;
};

struct EventBatch {
  CallColumns calls;
  ReleaseColumns releases;
  SampleColumns samples;
  std::vector<std::pair<std::int32_t, std::string>> stacks;  // frames, each ended by a newline
  OtherRunColumns other_runs;
  QuotaColumns quotas;
  MessageColumns messages;
  std::vector<OtherProgram> programs;  // those of which no batch before reported
};

class EventRows {
 public:
  // The scan must be complete and outlive this.
  explicit EventRows(const SpoolScan& scan);

  // Reads until about so many rows are there; false if there were none left.
  bool Next(std::size_t rows, EventBatch* batch);

  std::uint64_t position() const { return reader_.position(); }
  std::uint64_t malformed() const { return malformed_; }
  std::uint64_t unknown_thread() const { return unknown_thread_; }

 private:
  bool Read(const Frame& frame, EventBatch* batch);
  bool ReadCall(const Frame& frame, CallColumns* calls);
  bool ReadRelease(const Frame& frame, ReleaseColumns* releases);
  bool ReadSample(const Frame& frame, SampleColumns* samples);
  bool ReadStack(const Frame& frame, EventBatch* batch);
  bool ReadOtherRun(const Frame& frame, EventBatch* batch);
  bool ReadQuota(const Frame& frame, QuotaColumns* quotas);
  bool ReadMessage(const Frame& frame, MessageColumns* messages);
  std::int32_t ProgramId(std::uint32_t pid, const std::string& name, EventBatch* batch);
  bool IsInterval(std::uint64_t start_ns, std::uint64_t end_ns) const;
  bool IsOutside(std::uint64_t start_ns, std::uint64_t end_ns) const;
  bool IsInTrace(std::uint32_t thread_id);

  const SpoolScan& scan_;
  FrameReader reader_;
  std::map<std::pair<std::uint32_t, std::string>, std::int32_t> programs_;
  std::uint64_t malformed_ = 0;
  std::uint64_t unknown_thread_ = 0;
};

}  // namespace rls
