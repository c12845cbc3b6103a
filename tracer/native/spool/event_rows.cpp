#include "spool/event_rows.h"

#include <algorithm>
#include <cstring>

namespace rls {
namespace {

template <typename Record>
bool Copy(const Frame& frame, Record* record) {
  if (frame.bytes < sizeof(Record)) {
    return false;
  }
  std::memcpy(record, frame.record, sizeof(Record));
  return true;
}

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

EventRows::EventRows(const SpoolScan& scan) : scan_(scan), reader_(scan.path()) {}

bool EventRows::Next(std::size_t rows, EventBatch* batch) {
  *batch = {};
  Frame frame;
  const auto filled = [batch] {
    return batch->calls.thread_id.size() + batch->releases.thread_id.size() +
           batch->samples.thread_id.size() + batch->stacks.size() + batch->other_runs.cpu.size() +
           batch->quotas.thread_id.size() + batch->messages.thread_id.size();
  };
  while (filled() < rows && reader_.Next(&frame)) {
    if (!Read(frame, batch)) {
      ++malformed_;
    }
  }
  return filled() > 0;
}

bool EventRows::Read(const Frame& frame, EventBatch* batch) {
  switch (RecordKind(frame)) {
    case RLS_REC_CALL:
      return ReadCall(frame, &batch->calls);
    case RLS_REC_GIL_RELEASE:
      return ReadRelease(frame, &batch->releases);
    case RLS_REC_SAMPLE:
      return ReadSample(frame, &batch->samples);
    case RLS_REC_STACK:
      return ReadStack(frame, batch);
    case RLS_REC_OTHER_RUN:
      return ReadOtherRun(frame, batch);
    case RLS_REC_QUOTA:
      return ReadQuota(frame, &batch->quotas);
    case RLS_REC_MESSAGE:
      return ReadMessage(frame, &batch->messages);
    default:
      return true;
  }
}

bool EventRows::IsInterval(std::uint64_t start_ns, std::uint64_t end_ns) const {
  return start_ns <= end_ns && end_ns <= scan_.latest_ns();
}

// Of what is kept of a recording: what lasted when that begins is cut there.
bool EventRows::IsOutside(std::uint64_t start_ns, std::uint64_t end_ns) const {
  return Signed(start_ns) >= scan_.limit_ns() || Signed(end_ns) < scan_.from_ns();
}

// After a kill a thread may be missing whose calls and samples are there: they come other ways.
bool EventRows::IsInTrace(std::uint32_t thread_id) {
  const std::uint32_t slot = scan_.index().Find(thread_id);
  const bool is_in_trace = slot != ThreadIndex::kNone && scan_.threads()[slot].has_state != 0 &&
                           scan_.threads()[slot].start_ns < scan_.limit_ns();
  unknown_thread_ += is_in_trace ? 0 : 1;
  return is_in_trace;
}

bool EventRows::ReadCall(const Frame& frame, CallColumns* calls) {
  rls_rec_call record;
  if (!Copy(frame, &record) || !IsInterval(record.start_ns, record.end_ns) ||
      record.layer == RLS_LAYER_NONE || record.layer >= RLS_LAYERS ||
      record.parent_layer >= RLS_LAYERS || record.site_id > static_cast<std::uint32_t>(INT32_MAX)) {
    return false;
  }
  if (IsOutside(record.start_ns, record.end_ns) || !IsInTrace(record.thread_id)) {
    return true;
  }
  const bool is_cut = Signed(record.end_ns) > scan_.limit_ns();
  calls->thread_id.push_back(static_cast<std::int32_t>(record.thread_id));
  calls->start_ns.push_back(std::max(Signed(record.start_ns), scan_.from_ns()));
  calls->end_ns.push_back(std::min(Signed(record.end_ns), scan_.limit_ns()));
  calls->layer.push_back(record.layer);
  calls->parent_layer.push_back(record.parent_layer);
  calls->depth.push_back(record.depth);
  calls->site_id.push_back(static_cast<std::int32_t>(record.site_id));
  calls->flags.push_back(
      static_cast<std::uint8_t>(is_cut ? RLS_CALL_OPEN : record.flags & UINT8_MAX));
  return true;
}

bool EventRows::ReadRelease(const Frame& frame, ReleaseColumns* releases) {
  rls_rec_gil_release record;
  if (!Copy(frame, &record) || !IsInterval(record.start_ns, record.end_ns)) {
    return false;
  }
  if (IsOutside(record.start_ns, record.end_ns) || !IsInTrace(record.thread_id)) {
    return true;
  }
  releases->thread_id.push_back(static_cast<std::int32_t>(record.thread_id));
  releases->start_ns.push_back(std::max(Signed(record.start_ns), scan_.from_ns()));
  releases->end_ns.push_back(std::min(Signed(record.end_ns), scan_.limit_ns()));
  return true;
}

bool EventRows::ReadSample(const Frame& frame, SampleColumns* samples) {
  rls_rec_sample record;
  if (!Copy(frame, &record) || record.layer >= RLS_LAYERS || record.ts_ns > scan_.latest_ns() ||
      record.stack_id > static_cast<std::uint32_t>(INT32_MAX)) {
    return false;
  }
  if (IsOutside(record.ts_ns, record.ts_ns) || !IsInTrace(record.thread_id)) {
    return true;
  }
  samples->thread_id.push_back(static_cast<std::int32_t>(record.thread_id));
  samples->ts_ns.push_back(Signed(record.ts_ns));
  samples->layer.push_back(record.layer);
  samples->flags.push_back(record.flags);
  samples->stack_id.push_back(static_cast<std::int32_t>(record.stack_id));
  return true;
}

bool EventRows::ReadOtherRun(const Frame& frame, EventBatch* batch) {
  rls_rec_other_run record;
  if (!Copy(frame, &record) || !IsInterval(record.start_ns, record.end_ns) ||
      record.cpu > INT16_MAX || record.tgid > static_cast<std::uint32_t>(INT32_MAX)) {
    return false;
  }
  if (IsOutside(record.start_ns, record.end_ns)) {
    return true;
  }
  const std::string name(record.comm, strnlen(record.comm, sizeof(record.comm)));
  batch->other_runs.cpu.push_back(static_cast<std::int16_t>(record.cpu));
  batch->other_runs.start_ns.push_back(std::max(Signed(record.start_ns), scan_.from_ns()));
  batch->other_runs.end_ns.push_back(std::min(Signed(record.end_ns), scan_.limit_ns()));
  batch->other_runs.program_id.push_back(ProgramId(record.tgid, name, batch));
  return true;
}

std::int32_t EventRows::ProgramId(std::uint32_t pid, const std::string& name, EventBatch* batch) {
  const auto [place, is_new] =
      programs_.emplace(std::make_pair(pid, name), static_cast<std::int32_t>(programs_.size() + 1));
  if (is_new) batch->programs.push_back({place->second, pid, name});
  return place->second;
}

bool EventRows::ReadQuota(const Frame& frame, QuotaColumns* quotas) {
  rls_rec_quota record;
  if (!Copy(frame, &record) || record.ts_ns > scan_.latest_ns()) {
    return false;
  }
  if (Signed(record.ts_ns) >= scan_.limit_ns() || !IsInTrace(record.thread_id)) {
    return true;
  }
  quotas->thread_id.push_back(static_cast<std::int32_t>(record.thread_id));
  quotas->ts_ns.push_back(std::max(Signed(record.ts_ns), scan_.from_ns()));
  return true;
}

bool EventRows::ReadMessage(const Frame& frame, MessageColumns* messages) {
  rls_rec_message record;
  if (!Copy(frame, &record) || !IsInterval(record.sent_ns, record.read_ns) ||
      (record.file != RLS_FILE_PIPE && record.file != RLS_FILE_SOCKET)) {
    return false;
  }
  // An edge needs both of its ends.
  if (Signed(record.sent_ns) < scan_.from_ns() || Signed(record.read_ns) >= scan_.limit_ns() ||
      !IsInTrace(record.thread_id) || !IsInTrace(record.sender_thread_id)) {
    return true;
  }
  messages->thread_id.push_back(static_cast<std::int32_t>(record.thread_id));
  messages->read_ns.push_back(Signed(record.read_ns));
  messages->sent_ns.push_back(Signed(record.sent_ns));
  messages->sender_thread_id.push_back(static_cast<std::int32_t>(record.sender_thread_id));
  messages->file.push_back(static_cast<std::uint8_t>(record.file));
  return true;
}

bool EventRows::ReadStack(const Frame& frame, EventBatch* batch) {
  rls_rec_stack record;
  if (!Copy(frame, &record) || record.stack_id == 0 ||
      record.stack_id > static_cast<std::uint32_t>(INT32_MAX) ||
      record.bytes > frame.bytes - sizeof(record)) {
    return false;
  }
  batch->stacks.emplace_back(static_cast<std::int32_t>(record.stack_id),
                             std::string(frame.record + sizeof(record), record.bytes));
  return true;
}

}  // namespace rls
