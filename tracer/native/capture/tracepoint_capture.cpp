#include "capture/tracepoint_capture.h"

#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "bpf/tp_fields.h"
#include "capture/btf_capture.h"
#include "capture/spool_writer.h"
#include "clock.h"

namespace rls {
namespace {

constexpr std::size_t kMaxOpenBytes = sizeof(rls_rec_close) << 16;

rls_rec_thread ThreadRecord(const rls_track& track, const FoundThread& found) {
  rls_rec_thread record = {};
  record.kind = RLS_REC_THREAD;
  record.entered = track.entered;
  record.off_state = track.off_state;
  record.thread_id = track.thread_id;
  record.ts_ns = track.entered_ns;
  record.born_ns = found.born_ns;
  record.tid = track.tid;
  record.tgid = track.tgid;
  record.parent_tgid = found.parent_tgid;
  const std::size_t length = std::min(found.comm.size(), sizeof(record.comm) - 1);
  std::memcpy(record.comm, found.comm.data(), length);
  return record;
}

}  // namespace

std::vector<TracepointField> TracepointFields() {
  std::vector<TracepointField> fields;
#define RLS_TP_FIELD_ROW(name, group, event, field) \
  fields.emplace_back(#name, #group, #event, #field);
  RLS_TP_FIELDS(RLS_TP_FIELD_ROW)
#undef RLS_TP_FIELD_ROW
  return fields;
}

TracepointCapture::TracepointCapture(const std::string& object_path, std::uint32_t ring_bytes,
                                     const std::map<std::string, std::uint32_t>& offsets)
    : object_(object_path) {
  rls_tp_offsets values = {};
#define RLS_TP_OFFSET_VALUE(name, group, event, field) values.name = offsets.at(#name);
  RLS_TP_FIELDS(RLS_TP_OFFSET_VALUE)
#undef RLS_TP_OFFSET_VALUE
  object_.SetGlobals(".rodata", &values, sizeof(values));
  object_.SetRingBytes(ring_bytes);
  object_.Load();
}

void TracepointCapture::Attach(const std::vector<std::string>& only) {
  if (only.empty()) object_.AttachAll();
  for (const std::string& name : only) object_.Attach(name);
}

void TracepointCapture::Detach() {
  object_.DetachAll();
  WaitForRunningPrograms();
}

bool ThreadTable::Enter(const FoundThread& thread) {
  rls_track track = {};
  track.off_state = static_cast<rls_u8>(thread.off_state);
  track.entered = RLS_ENTERED_FOUND;
  track.entered_ns = MonotonicNs();
  track.off_ns = track.entered_ns;
  track.tid = thread.tid;
  track.tgid = thread.tgid;
  track.cpu = thread.cpu;
  // It runs, or soon will: its next event is the end of the one or the beginning of the other.
  if (thread.off_state == RLS_OFF_RUNNABLE) track.in_ns = track.off_ns;
  if (bpf_map_update_elem(threads_fd_, &thread.tid, &track, BPF_NOEXIST) != 0) {
    if (errno == EEXIST) return false;
    throw std::system_error(errno, std::generic_category(), "entering a thread into the filter");
  }
  found_[thread.tid] = thread;
  return true;
}

rls_control ThreadTable::Control() const {
  rls_control control = {};
  const std::uint32_t zero = 0;
  if (bpf_map_lookup_elem(control_fd_, &zero, &control) != 0)
    throw std::system_error(errno, std::generic_category(), "reading the counters");
  return control;
}

std::uint64_t ThreadTable::FailedUpdates() const { return Control().failed_updates; }

void ThreadTable::CloseOne(std::uint32_t tid, rls_track track, std::uint64_t* last_thread_id,
                           SpoolWriter* spool) {
  if (track.dead) return;
  const auto found = found_.find(tid);
  // Not one event since it was entered: it ran, or waited, all the time.
  if (track.thread_id == 0) track.thread_id = static_cast<rls_u32>(++*last_thread_id);
  if (!track.announced)
    spool->Append(ThreadRecord(track, found == found_.end() ? FoundThread{} : found->second));
  rls_rec_close close = {};
  track_describe_open_end(&track, track.cpu, &close);
  spool->Append(close);
}

std::string ThreadTable::TellOpen() const {
  std::string records;
  std::uint32_t tid = 0;
  std::uint32_t next = 0;
  const std::uint32_t* previous = nullptr;
  while (bpf_map_get_next_key(threads_fd_, previous, &next) == 0) {
    rls_track track = {};
    if (bpf_map_lookup_elem(threads_fd_, &next, &track) == 0 && !track.dead &&
        track.thread_id != 0) {
      rls_rec_close close = {};
      track_describe_open_end(&track, track.cpu, &close);
      records.append(reinterpret_cast<const char*>(&close), sizeof(close));
    }
    // A key that is gone begins the walk again: it is given up, the rest comes another time.
    if (records.size() > kMaxOpenBytes) break;
    tid = next;
    previous = &tid;
  }
  return records;
}

void ThreadTable::CloseOpen(SpoolWriter* spool) {
  std::uint64_t last_thread_id = Control().last_thread_id;
  std::uint32_t tid = 0;
  std::uint32_t next = 0;
  const std::uint32_t* previous = nullptr;
  while (bpf_map_get_next_key(threads_fd_, previous, &next) == 0) {
    rls_track track = {};
    if (bpf_map_lookup_elem(threads_fd_, &next, &track) == 0)
      CloseOne(next, track, &last_thread_id, spool);
    tid = next;
    previous = &tid;
  }
}

}  // namespace rls
