#include "perfetto_proto.h"

#include <charconv>

#include "perfetto_wire.h"

namespace rls::timeline {

namespace {

// TracePacket
constexpr uint32_t kPacket = 1, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11;
constexpr uint32_t kInternedData = 12, kSequenceFlags = 13, kGpuRenderStageEvent = 53;
constexpr uint32_t kTrackDescriptor = 60;
constexpr uint64_t kSequence = 1, kNeedsIncrementalState = 2;
// TrackEvent
constexpr uint32_t kCategoryIids = 3, kDebugAnnotations = 4, kType = 9, kNameIid = 10;
constexpr uint32_t kTrackUuid = 11, kGpuCorrelation = 3000;
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2;
// DebugAnnotation
constexpr uint32_t kLabelIid = 1, kInt = 4, kStringIid = 17;
// InternedData
constexpr uint32_t kGpuSpecifications = 24;

// Ids of events that two processes share would link the calls of one to the kernels of the other.
uint64_t correlated_event(const Track& track, int64_t correlation) {
  constexpr int kScopeShift = 44;
  const auto id = static_cast<uint64_t>(correlation);
  if (id >> kScopeShift == 0) return id | track.correlation_scope << kScopeShift;
  return id ^ (track.correlation_scope * 0x9e3779b97f4a7c15u | 1);
}

std::string lane_name(const Track& track, size_t lane) {
  return lane == 0 ? track.name : track.name + " (overlap " + std::to_string(lane) + ")";
}

void put_annotation(std::string& out, uint64_t label, uint32_t kind, uint64_t value) {
  const Message annotation(out, kDebugAnnotations);
  put_number(out, kLabelIid, label);
  put_number(out, kind, value);
}

}  // namespace

uint64_t Interner::number(const std::string& text, std::string& described) {
  const auto [entry, is_new] = numbers_.try_emplace(text, numbers_.size() + 1);
  if (is_new) {
    const Message message(described, field_);
    put_number(described, 1, entry->second);
    put_bytes(described, 2, text);
  }
  return entry->second;
}

void ProtoSink::open(const Slice& slice) {
  if (!slice.name.prepared) prepare_name(slice.source, slice.name);
  prepare_arguments(slice.source);
  if (slice.source.shape == Shape::kGpu) {
    put_gpu_event(slice);
  } else {
    open_track_event(slice);
  }
}

void ProtoSink::put_packet(int64_t timestamp, uint32_t field) {
  const Message packet(output_, kPacket);
  put_number(output_, kTimestamp, static_cast<uint64_t>(timestamp));
  put_number(output_, kSequenceId, kSequence);
  put_number(output_, kSequenceFlags, kNeedsIncrementalState);
  if (!described_.empty()) put_bytes(output_, kInternedData, described_);
  put_bytes(output_, field, body_);
  described_.clear();
}

void ProtoSink::open_track_event(const Slice& slice) {
  const uint64_t track = lane_track(slice.track, slice.lane);
  body_.clear();
  put_number(body_, kType, kSliceBegin);
  put_number(body_, kTrackUuid, track);
  put_number(body_, kCategoryIids, slice.name.category_iid);
  put_number(body_, kNameIid, slice.name.text_iid);
  body_.append(slice.name.encoded);
  put_arguments(slice, body_);
  const int64_t correlation = slice.source.correlation;
  if (correlation >= 0 && slice.has(static_cast<size_t>(correlation))) {
    const Message message(body_, kGpuCorrelation);
    put_number(body_, 1,
               correlated_event(slice.track, slice.value(static_cast<size_t>(correlation))));
  }
  put_packet(slice.start, kTrackEvent);
}

void ProtoSink::close(Track& track, size_t lane, int64_t end) {
  // What the GPU did was written as a whole.
  if (track.parent_uuid == 0) return;
  body_.clear();
  put_number(body_, kType, kSliceEnd);
  put_number(body_, kTrackUuid, track.lane_ids[lane]);
  put_packet(end, kTrackEvent);
}

void ProtoSink::put_gpu_event(const Slice& slice) {
  const uint64_t queue = lane_queue(slice.track, slice.lane);
  body_.clear();
  put_number(body_, 1, event_id(slice));
  put_number(body_, 2, static_cast<uint64_t>(slice.end) - static_cast<uint64_t>(slice.start));
  put_number(body_, 13, queue);
  put_number(body_, 14, slice.name.text_iid);
  body_.append(slice.track.constant);
  put_extra_data(slice, body_);
  put_packet(slice.start, kGpuRenderStageEvent);
}

uint64_t ProtoSink::event_id(const Slice& slice) {
  const int64_t correlation = slice.source.correlation;
  if (correlation >= 0 && slice.has(static_cast<size_t>(correlation))) {
    return correlated_event(slice.track, slice.value(static_cast<size_t>(correlation)));
  }
  return ++uncorrelated_ | uint64_t{1} << 63;
}

// A lane that is new becomes a track below the parent, described just before its first slice.
uint64_t ProtoSink::lane_track(Track& track, size_t lane) {
  if (lane < track.lane_ids.size()) return track.lane_ids[lane];
  const bool is_own = lane == 0 && track.uuid != 0;
  const uint64_t uuid = is_own ? track.uuid : next_uuid_++;
  track.lane_ids.push_back(uuid);
  if (is_own) return uuid;
  const Message packet(output_, kPacket);
  put_number(output_, kSequenceId, kSequence);
  const Message descriptor(output_, kTrackDescriptor);
  put_number(output_, 1, uuid);
  put_bytes(output_, 2, lane_name(track, lane));
  put_number(output_, 5, track.parent_uuid);
  put_number(output_, 12, static_cast<uint64_t>(track.rank) + lane);
  return uuid;
}

uint64_t ProtoSink::lane_queue(Track& track, size_t lane) {
  if (lane == track.lane_ids.size())
    track.lane_ids.push_back(specify(lane_name(track, lane), "", 0));
  return track.lane_ids[lane];
}

uint64_t ProtoSink::specify(const std::string& name, const std::string& description,
                            uint64_t category) {
  const uint64_t iid = next_specification_++;
  const Message message(described_, kGpuSpecifications);
  put_number(described_, 1, iid);
  put_bytes(described_, 2, name);
  if (!description.empty()) put_bytes(described_, 3, description);
  put_number(described_, 4, category);
  return iid;
}

void ProtoSink::prepare_name(Source& source, Name& name) {
  name.prepared = true;
  if (source.shape == Shape::kGpu) {
    // The "stage" of an event is what viewers show as its name.
    constexpr uint64_t kCompute = 2;
    name.text_iid = specify(name.text, name.category, kCompute);
    return;
  }
  name.text_iid = event_names_.number(name.text, described_);
  name.category_iid = categories_.number(name.category, described_);
  for (const auto& [label, word] : name.arguments) {
    const uint64_t label_iid = labels_.number(label, described_);
    put_annotation(name.encoded, label_iid, kStringIid, words_.number(word, described_));
  }
}

void ProtoSink::prepare_arguments(Source& source) {
  for (Argument& argument : source.arguments) {
    if (argument.prepared) return;
    argument.prepared = true;
    argument.label_iid = labels_.number(argument.label, described_);
    for (const auto& [code, word] : argument.words) {
      argument.word_iids[code] = words_.number(word, described_);
    }
  }
}

void ProtoSink::put_arguments(const Slice& slice, std::string& out) {
  for (size_t i = 0; i < slice.source.arguments.size(); ++i) {
    if (!slice.has(i)) continue;
    const Argument& argument = slice.source.arguments[i];
    const int64_t value = slice.value(i);
    if (!argument.is_coded) {
      put_annotation(out, argument.label_iid, kInt, static_cast<uint64_t>(value));
    } else if (const auto word = argument.word_iids.find(value); word != argument.word_iids.end()) {
      put_annotation(out, argument.label_iid, kStringIid, word->second);
    }
  }
}

void ProtoSink::put_extra_data(const Slice& slice, std::string& out) {
  constexpr uint32_t kExtraData = 6;
  for (size_t i = 0; i < slice.source.arguments.size(); ++i) {
    if (!slice.has(i)) continue;
    char digits[24];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, slice.value(i));
    const Message extra(out, kExtraData);
    put_bytes(out, 1, slice.source.arguments[i].label);
    put_bytes(out, 2, std::string_view(digits, static_cast<size_t>(end - digits)));
  }
}

}  // namespace rls::timeline
