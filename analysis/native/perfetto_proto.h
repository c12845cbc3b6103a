// Slices as packets of Perfetto's protobuf trace.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "perfetto_model.h"

namespace rls::timeline {

// Strings that are written once and then called by number, one set per kind of string.
class Interner {
 public:
  explicit Interner(uint32_t field) : field_(field) {}

  // Returns the number of `text`; a new one is described in `described`, as InternedData.
  uint64_t number(const std::string& text, std::string& described);

 private:
  uint32_t field_;
  std::unordered_map<std::string, uint64_t> numbers_;
};

// Field numbers and values are those of perfetto/trace/trace_packet.proto and what it imports.
class ProtoSink : public Sink {
 public:
  // Track uuids below `first_uuid` and iids of specifications below `first_specification` belong to
  // the caller.
  ProtoSink(uint64_t first_uuid, uint64_t first_specification)
      : next_uuid_(first_uuid), next_specification_(first_specification) {}

  void open(const Slice& slice) override;
  void close(Track& track, size_t lane, int64_t end) override;
  std::string& output() override { return output_; }

 private:
  void open_track_event(const Slice& slice);
  void put_gpu_event(const Slice& slice);
  uint64_t lane_track(Track& track, size_t lane);
  uint64_t lane_queue(Track& track, size_t lane);
  void prepare_name(Source& source, Name& name);
  void prepare_arguments(Source& source);
  uint64_t stage(Name& name);
  uint64_t specify(const std::string& name, const std::string& description, uint64_t category);
  void put_arguments(const Slice& slice, std::string& out);
  void put_extra_data(const Slice& slice, std::string& out);
  uint64_t event_id(const Slice& slice);
  void put_packet(int64_t timestamp, uint32_t field);

  std::string output_;
  // Bodies of the InternedData and of the event of the packet under way.
  std::string described_;
  std::string body_;
  Interner event_names_{2};
  Interner categories_{1};
  Interner labels_{3};
  Interner words_{29};
  uint64_t next_uuid_;
  uint64_t next_specification_;
  uint64_t uncorrelated_ = 0;
};

}  // namespace rls::timeline
