#include "spool/scan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "regular_file.h"

namespace rls {
namespace {

constexpr std::size_t kBufferBytes = 1U << 20;

// Far above every record there is: a longer frame is damage, and nothing behind it can be found.
constexpr std::size_t kMaxFrameBytes = 1U << 16;

// Of titles, which a program changes at will: 60 MB in all.
constexpr std::size_t kMaxTitles = 1U << 21;
constexpr std::size_t kMaxTitleTexts = 1U << 16;

template <typename Record>
bool ReadRecord(const Frame& frame, Record* record) {
  if (frame.bytes < sizeof(Record)) {
    return false;
  }
  std::memcpy(record, frame.record, sizeof(Record));
  return true;
}

// thread_id is INTEGER in the database.
bool IsThreadId(std::uint32_t thread_id) { return thread_id > 0 && thread_id <= INT32_MAX; }

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

FrameReader::FrameReader(const std::string& path)
    : fd_(OpenRegularFile(path)), buffer_(kBufferBytes) {
  struct stat status = {};
  if (fstat(fd_, &status) != 0) {
    const int error = errno;
    close(fd_);
    throw std::system_error(error, std::generic_category(), "reading " + path);
  }
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (Have(sizeof(SpoolHeader))) {
    SpoolHeader header;
    std::memcpy(&header, buffer_.data(), sizeof(header));
    begin_ = sizeof(header);
    position_ = begin_;
  }
}

FrameReader::~FrameReader() { close(fd_); }

bool FrameReader::Have(std::size_t bytes) {
  if (end_ - begin_ >= bytes) {
    return true;
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < bytes) {
    const ssize_t got = read(fd_, buffer_.data() + end_, buffer_.size() - end_);
    if (got == 0) {
      return false;
    }
    if (got > 0) {
      end_ += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "reading the spool");
    }
  }
  return true;
}

bool FrameReader::Next(Frame* frame) {
  while (Have(kFrameHeaderBytes)) {
    std::uint32_t header;
    std::memcpy(&header, buffer_.data() + begin_, sizeof(header));
    const std::uint32_t length = header & kFrameLengthMask;
    const std::size_t frame_bytes = kFrameHeaderBytes + ((length + 7U) & ~std::size_t{7});
    if ((header & kFrameBusy) != 0 || length == 0 || frame_bytes > kMaxFrameBytes ||
        !Have(frame_bytes)) {
      return false;
    }
    *frame = {buffer_.data() + begin_ + kFrameHeaderBytes, length};
    begin_ += frame_bytes;
    position_ += frame_bytes;
    if ((header & kFrameDiscarded) == 0) {
      return true;
    }
  }
  return false;
}

bool ReadCycle(const Frame& frame, std::uint64_t latest_ns, rls_rec_cycle* cycle) {
  return ReadRecord(frame, cycle) && IsThreadId(cycle->thread_id) && cycle->off_ns <= latest_ns &&
         cycle->wake_ns <= latest_ns && cycle->in_ns <= latest_ns && cycle->out_ns <= latest_ns;
}

std::uint16_t RecordKind(const Frame& frame) {
  std::uint16_t kind = RLS_REC_NONE;
  if (frame.bytes >= sizeof(kind)) {
    std::memcpy(&kind, frame.record, sizeof(kind));
  }
  return kind;
}

std::uint32_t ThreadIndex::Find(std::uint32_t thread_id) const {
  if (thread_id < direct_.size()) {
    return direct_[thread_id];
  }
  const auto found = sparse_.find(thread_id);
  return found == sparse_.end() ? kNone : found->second;
}

void ThreadIndex::Insert(std::uint32_t thread_id, std::uint32_t slot) {
  if (thread_id >= kDirectIds) {
    sparse_[thread_id] = slot;
    return;
  }
  if (thread_id >= direct_.size()) {
    const std::size_t doubled = std::max<std::size_t>(2 * direct_.size(), 1024);
    direct_.resize(std::max<std::size_t>(doubled, thread_id + 1U), kNone);
  }
  direct_[thread_id] = slot;
}

SpoolScan::SpoolScan(const std::string& path, std::int64_t end_ns, std::int64_t latest_ns,
                     std::int64_t from_ns)
    : path_(path),
      from_ns_(std::max<std::int64_t>(from_ns, 0)),
      limit_ns_(end_ns > 0 ? end_ns : INT64_MAX),
      latest_ns_(static_cast<std::uint64_t>(latest_ns > 0 ? latest_ns : INT64_MAX)),
      reader_(path) {}

bool SpoolScan::IsInTrace(std::uint64_t ts_ns) const {
  return ts_ns <= static_cast<std::uint64_t>(limit_ns_);
}

bool SpoolScan::Advance(std::uint64_t bytes) {
  const std::uint64_t until = reader_.position() + bytes;
  Frame frame;
  while (reader_.position() < until) {
    if (!reader_.Next(&frame)) {
      return false;
    }
    const std::uint16_t kind = RecordKind(frame);
    if (kind == RLS_REC_NONE || kind >= RLS_REC_KINDS) {
      ++unknown_kind_;
    } else if (Read(kind, frame)) {
      ++records_[kind];
    } else {
      ++malformed_;
    }
  }
  return true;
}

bool SpoolScan::Read(std::uint16_t kind, const Frame& frame) {
  switch (kind) {
    case RLS_REC_THREAD:
      return ReadThread(frame);
    case RLS_REC_CYCLE:
      return CountCycle(frame);
    case RLS_REC_CLOSE:
      return ReadClose(frame);
    case RLS_REC_EXEC:
      return ReadExec(frame);
    case RLS_REC_NAME:
      return ReadName(frame);
    case RLS_REC_EXIT:
      return ReadExit(frame);
    case RLS_REC_CLOCK:
      return ReadClock(frame);
    case RLS_REC_TITLE:
      return ReadTitle(frame);
    default:
      return true;  // read by EventRows
  }
}

ThreadFacts& SpoolScan::Thread(std::uint32_t thread_id) {
  std::uint32_t slot = index_.Find(thread_id);
  if (slot == ThreadIndex::kNone) {
    slot = static_cast<std::uint32_t>(threads_.size());
    ThreadFacts thread = {};
    thread.thread_id = thread_id;
    thread.exit_status = RLS_UNKNOWN_EXIT_STATUS;
    thread.close_slot = ThreadIndex::kNone;
    threads_.push_back(thread);
    index_.Insert(thread_id, slot);
  }
  return threads_[slot];
}

bool SpoolScan::ReadThread(const Frame& frame) {
  rls_rec_thread record;
  if (!ReadRecord(frame, &record) || !IsThreadId(record.thread_id) || record.ts_ns > latest_ns_ ||
      record.born_ns > latest_ns_) {
    return false;
  }
  ThreadFacts& thread = Thread(record.thread_id);
  if (thread.has_start != 0) {
    return false;  // an id is used once: of two records one is damaged, and the first fits so far
  }
  thread.has_start = 1;
  thread.has_state = 1;
  thread.start_ns = Signed(record.ts_ns);
  thread.born_ns = Signed(record.born_ns);
  thread.tid = record.tid;
  thread.tgid = record.tgid;
  thread.ns_tid = record.ns_tid;
  thread.ns_tgid = record.ns_tgid;
  thread.creator_thread_id = record.creator_thread_id;
  thread.parent_tgid = record.parent_tgid;
  thread.entered = record.entered;
  if (thread.start_ns < from_ns_) {
    thread.start_ns = from_ns_;
    thread.entered = RLS_ENTERED_FOUND;
  }
  thread.off_reason = record.off_reason;
  if (thread.name[0] == '\0') {  // a NAME record that overtook this one is newer
    std::memcpy(thread.name, record.comm, sizeof(thread.name));
  }
  return true;
}

bool SpoolScan::CountCycle(const Frame& frame) {
  rls_rec_cycle record;
  if (!ReadCycle(frame, latest_ns_, &record)) {
    return false;
  }
  ThreadFacts& thread = Thread(record.thread_id);
  if (thread.has_state == 0) {
    thread.has_state = 1;
    thread.start_ns = std::max(Signed(record.off_ns), from_ns_);
  }
  ++thread.cycles;
  return true;
}

bool SpoolScan::ReadClose(const Frame& frame) {
  rls_rec_close record;
  if (!ReadRecord(frame, &record) || !IsThreadId(record.thread_id) || record.off_ns > latest_ns_ ||
      record.wake_ns > latest_ns_ || record.in_ns > latest_ns_) {
    return false;
  }
  ThreadFacts& thread = Thread(record.thread_id);
  if (thread.close_slot != ThreadIndex::kNone) {
    return false;
  }
  if (thread.has_state == 0) {
    thread.has_state = 1;
    thread.start_ns = std::max(Signed(record.off_ns), from_ns_);
  }
  thread.close_slot = static_cast<std::uint32_t>(closes_.size());
  closes_.push_back(record);
  return true;
}

bool SpoolScan::ReadExec(const Frame& frame) {
  rls_rec_exec record;
  if (!ReadRecord(frame, &record) || record.ts_ns > latest_ns_ || record.thread_id > INT32_MAX) {
    return false;
  }
  if (!IsInTrace(record.ts_ns)) {
    return true;
  }
  const std::size_t args_len = std::min<std::size_t>(record.args_len, sizeof(record.args));
  execs_.push_back({std::max(Signed(record.ts_ns), from_ns_), record.thread_id, record.tid,
                    record.old_tid, record.ns_tgid, record.args_total,
                    std::string(record.filename, strnlen(record.filename, sizeof(record.filename))),
                    std::string(record.args, args_len)});
  return true;
}

bool SpoolScan::ReadName(const Frame& frame) {
  rls_rec_name record;
  if (!ReadRecord(frame, &record) || !IsThreadId(record.thread_id) || record.ts_ns > latest_ns_) {
    return false;
  }
  if (!IsInTrace(record.ts_ns)) {
    return true;
  }
  std::memcpy(Thread(record.thread_id).name, record.comm, sizeof(record.comm));
  return true;
}

bool SpoolScan::ReadTitle(const Frame& frame) {
  rls_rec_title record;
  if (!ReadRecord(frame, &record) || !IsThreadId(record.thread_id) || record.ts_ns > latest_ns_ ||
      record.bytes == 0 || record.bytes >= sizeof(record.title)) {
    return false;
  }
  if (!IsInTrace(record.ts_ns)) {
    return true;
  }
  if (titles_.size() >= kMaxTitles) {
    ++unread_titles_;
    return true;
  }
  const std::string text(record.title, strnlen(record.title, record.bytes));
  std::uint32_t text_id = 0;
  const auto found = title_ids_.find(text);
  if (found != title_ids_.end()) {
    text_id = found->second;
  } else if (title_texts_.size() < kMaxTitleTexts) {
    text_id = static_cast<std::uint32_t>(title_texts_.size());
    title_ids_.emplace(text, text_id);
    title_texts_.push_back(text);
  } else {
    ++unread_titles_;
  }
  titles_.push_back({std::max(Signed(record.ts_ns), from_ns_), record.thread_id, text_id});
  return true;
}

bool SpoolScan::ReadExit(const Frame& frame) {
  rls_rec_exit record;
  if (!ReadRecord(frame, &record) || !IsThreadId(record.thread_id) || record.ts_ns > latest_ns_) {
    return false;
  }
  if (!IsInTrace(record.ts_ns)) {
    return true;
  }
  ThreadFacts& thread = Thread(record.thread_id);
  thread.exit_ns = std::max(Signed(record.ts_ns), from_ns_);
  thread.exit_status = record.status;
  return true;
}

bool SpoolScan::ReadClock(const Frame& frame) {
  rls_rec_clock record;
  if (!ReadRecord(frame, &record) || record.ts_ns > latest_ns_ || record.realtime_ns > INT64_MAX ||
      record.boottime_ns > INT64_MAX) {
    return false;
  }
  clocks_.push_back({Signed(record.ts_ns), Signed(record.realtime_ns), Signed(record.boottime_ns)});
  return true;
}

}  // namespace rls
