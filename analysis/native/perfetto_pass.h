// One pass over the slices of some tracks: merges the sources, assigns lanes, feeds the format.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "perfetto_model.h"

namespace rls::timeline {

class Pass {
 public:
  explicit Pass(Sink& sink) : sink_(sink) {}

  // Tracks are added in the order of their groups in the sources.
  void add_track(const Key& key, Track track);
  // At equal times the slices of a source added earlier are around those of one added later.
  void add_source(Source source);

  // Feeds the format until it holds `bytes` or more; false when all is done. Rows of tracks that
  // were not added are counted, and left out.
  bool run(size_t bytes);

  int64_t rows() const { return rows_; }
  int64_t unplaced() const { return unplaced_; }

 private:
  struct Head {
    Source source;
    int64_t row = -1;
    bool done = false;
    Track* track = nullptr;
    size_t order = 0;
    int64_t start = 0;
    int64_t end = 0;
    Key key = {};
  };

  void advance(Head& head);
  bool next_row(Head& head);
  bool place(Head& head);
  Head* earliest();
  void feed(Head& head);
  void close_all();

  Sink& sink_;
  std::deque<Track> tracks_;
  std::unordered_map<Key, size_t, KeyHash> order_;
  std::vector<std::unique_ptr<Head>> heads_;
  // Tracks with slices in the group that is under way.
  std::vector<Track*> active_;
  int64_t group_ = 0;
  int64_t rows_ = 0;
  int64_t unplaced_ = 0;
  bool started_ = false;
};

}  // namespace rls::timeline
