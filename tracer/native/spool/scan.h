// First pass over a spool: which threads, programs and clocks it tells of, and how many cycles.
//
// Nothing here trusts the file: it may end anywhere, and hold any bytes. What cannot be read is
// counted, never an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "spool/format.h"

namespace rls {

struct Frame {
  const char* record;
  std::uint32_t bytes;
};

// Walks the frames of records.bin front to back through one buffer, however long the file is.
class FrameReader {
 public:
  explicit FrameReader(const std::string& path);
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  // The next frame that was not discarded; false at the end of the whole frames. The record is
  // valid until the next call.
  bool Next(Frame* frame);

  // Bytes of the file up to the end of the last whole frame.
  std::uint64_t position() const { return position_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  bool Have(std::size_t bytes);

  int fd_;  // owned
  std::uint64_t file_bytes_ = 0;
  std::uint64_t position_ = 0;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

// A cycle whose times can be, or false: no other cycle may count in either pass.
bool ReadCycle(const Frame& frame, std::uint64_t latest_ns, rls_rec_cycle* cycle);

std::uint16_t RecordKind(const Frame& frame);

// thread_id -> slot. Real ids are dense from 1; an id out of a damaged record must not make the
// table as large as the id.
class ThreadIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t Find(std::uint32_t thread_id) const;
  void Insert(std::uint32_t thread_id, std::uint32_t slot);

 private:
  static constexpr std::uint32_t kDirectIds = 1U << 20;

  std::vector<std::uint32_t> direct_;
  std::unordered_map<std::uint32_t, std::uint32_t> sparse_;
};

// What the records say about one thread. Python sees an array of these.
struct ThreadFacts {
  std::int64_t start_ns;  // of its THREAD record, else of the first that tells its state
  std::int64_t born_ns;   // 0: not known
  std::int64_t exit_ns;   // 0: no EXIT record
  std::uint64_t cycles;
  std::uint64_t off_reason;  // of its THREAD record
  std::uint32_t thread_id;
  std::uint32_t tid;
  std::uint32_t tgid;
  std::uint32_t ns_tid;
  std::uint32_t ns_tgid;
  std::uint32_t creator_thread_id;
  std::uint32_t parent_tgid;
  std::int32_t exit_status;
  std::uint32_t close_slot;  // in SpoolScan::closes(); ThreadIndex::kNone: none
  std::uint8_t entered;
  std::uint8_t has_start;  // its THREAD record was read
  std::uint8_t has_state;  // a record tells its state at start_ns
  char name[RLS_COMM_LEN];
};

struct ExecFacts {
  std::int64_t ts_ns;
  std::uint32_t thread_id;
  std::uint32_t tid;
  std::uint32_t old_tid;
  std::uint32_t ns_tgid;
  std::uint32_t args_total;
  std::string filename;
  std::string args;
};

// What ps showed of a process from an instant on.
struct TitleFacts {
  std::int64_t ts_ns;
  std::uint32_t thread_id;  // which renamed itself
  std::uint32_t
      text_id;  // in SpoolScan::title_texts(); 0: too many were reported, or too different
};

struct ClockFacts {
  std::int64_t ts_ns;
  std::int64_t realtime_ns;
  std::int64_t boottime_ns;
};

class SpoolScan {
 public:
  // What happened after the end of the trace is not part of it; end_ns 0: no end is known. A record
  // that tells of a later time than latest_ns is damaged; 0: nothing is known of that. What was
  // before from_ns is cut off: nothing else is kept of the recording.
  SpoolScan(const std::string& path, std::int64_t end_ns, std::int64_t latest_ns = 0,
            std::int64_t from_ns = 0);

  // Reads on for about so many bytes; false once the end is reached.
  bool Advance(std::uint64_t bytes);

  const std::string& path() const { return path_; }
  std::int64_t from_ns() const { return from_ns_; }
  std::int64_t limit_ns() const { return limit_ns_; }
  std::uint64_t latest_ns() const { return latest_ns_; }
  std::uint64_t position() const { return reader_.position(); }
  std::uint64_t file_bytes() const { return reader_.file_bytes(); }
  const std::uint64_t* records() const { return records_; }
  std::uint64_t malformed() const { return malformed_; }
  std::uint64_t unknown_kind() const { return unknown_kind_; }
  const std::vector<ThreadFacts>& threads() const { return threads_; }
  const std::vector<rls_rec_close>& closes() const { return closes_; }
  const std::vector<ExecFacts>& execs() const { return execs_; }
  const std::vector<ClockFacts>& clocks() const { return clocks_; }
  const std::vector<TitleFacts>& titles() const { return titles_; }
  // By text_id; the first one is empty.
  const std::vector<std::string>& title_texts() const { return title_texts_; }
  // Those beyond what is kept: their times are known, what was shown is not, or neither is.
  std::uint64_t unread_titles() const { return unread_titles_; }
  const ThreadIndex& index() const { return index_; }

 private:
  bool IsInTrace(std::uint64_t ts_ns) const;
  bool Read(std::uint16_t kind, const Frame& frame);
  bool ReadThread(const Frame& frame);
  bool CountCycle(const Frame& frame);
  bool ReadClose(const Frame& frame);
  bool ReadExec(const Frame& frame);
  bool ReadName(const Frame& frame);
  bool ReadExit(const Frame& frame);
  bool ReadClock(const Frame& frame);
  bool ReadTitle(const Frame& frame);
  ThreadFacts& Thread(std::uint32_t thread_id);

  std::string path_;
  std::int64_t from_ns_;
  std::int64_t limit_ns_;
  std::uint64_t latest_ns_;  // INT64_MAX at most: times are BIGINT in the database
  FrameReader reader_;
  std::uint64_t records_[RLS_REC_KINDS] = {};
  std::uint64_t malformed_ = 0;
  std::uint64_t unknown_kind_ = 0;
  std::vector<ThreadFacts> threads_;
  std::vector<rls_rec_close> closes_;
  std::vector<ExecFacts> execs_;
  std::vector<ClockFacts> clocks_;
  std::vector<TitleFacts> titles_;
  std::vector<std::string> title_texts_ = {""};
  std::unordered_map<std::string, std::uint32_t> title_ids_;
  std::uint64_t unread_titles_ = 0;
  ThreadIndex index_;
};

}  // namespace rls
