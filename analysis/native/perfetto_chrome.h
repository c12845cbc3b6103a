// Slices as complete events of the Chrome trace format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "perfetto_model.h"

namespace rls::timeline {

// Appends text, which is valid UTF-8, as the inside of a JSON string.
void put_json_text(std::string& out, std::string_view text);

class ChromeSink : public Sink {
 public:
  // Thread ids from `first_tid` on name the lanes that overlaps need.
  explicit ChromeSink(int64_t first_tid) : next_tid_(first_tid) {}

  void open(const Slice& slice) override;
  void close(Track&, size_t, int64_t) override {}
  std::string& output() override { return output_; }

 private:
  void prepare_name(Name& name);
  int64_t lane_tid(Track& track, size_t lane);
  void put_place(const Slice& slice, int64_t tid);
  void put_arguments(const Slice& slice);
  void put_flow(const Slice& slice, int64_t tid);

  std::string output_;
  int64_t next_tid_;
};

}  // namespace rls::timeline
