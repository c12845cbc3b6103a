// What an export is made of, whatever its format: tracks, names, and where slices come from.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "perfetto_arrow.h"
#include "perfetto_lanes.h"

namespace rls::timeline {

constexpr int64_t kNull = INT64_MIN;
constexpr size_t kMaxKeys = 4;
using Key = std::array<int64_t, kMaxKeys>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (const int64_t part : key) {
      hash = (hash ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash);
  }
};

// A line of the viewer. Where slices of it overlap, more lines appear below: its lanes.
struct Track {
  std::string name;
  // Slices of one group come one after the other: when the next group begins, all is closed.
  int64_t group = 0;
  // Tells the correlation ids of processes apart.
  uint64_t correlation_scope = 0;
  // Perfetto: 0 lets the first lane be a new track below the parent.
  uint64_t uuid = 0;
  uint64_t parent_uuid = 0;
  int32_t rank = 0;
  // Chrome.
  int64_t pid = 0;
  int64_t tid = 0;
  // Fields or arguments that each of its slices carries, as the format writes them.
  std::string constant;

  Lanes lanes;
  bool is_active = false;
  // What the format calls the lanes that exist by now: track uuids, queue iids, or tids.
  std::vector<uint64_t> lane_ids;
};

struct Name {
  std::string text;
  std::string category;
  std::vector<std::pair<std::string, std::string>> arguments;
  // As the format writes them; made at first use.
  bool prepared = false;
  uint64_t text_iid = 0;
  uint64_t category_iid = 0;
  std::string encoded;
};

using Names = std::unordered_map<int64_t, Name>;

// A column that becomes an argument of each slice where it is not NULL.
struct Argument {
  std::string label;
  // Where codes stand for words; else it is a number.
  bool is_coded = false;
  std::unordered_map<int64_t, std::string> words;
  bool prepared = false;
  uint64_t label_iid = 0;
  std::unordered_map<int64_t, uint64_t> word_iids;
};

enum class Shape { kSlice, kGpu };

// A query whose rows are slices: start, end, name, the keys of the track, then the arguments.
struct Source {
  std::unique_ptr<ColumnStream> stream;
  Shape shape = Shape::kSlice;
  Names names;
  Name unknown;
  std::vector<Argument> arguments;
  int64_t keys = 1;
  // Index of the argument that holds the correlation id; -1: there is none.
  int64_t correlation = -1;

  int64_t first_argument() const { return 3 + keys; }
};

// A row under way.
struct Slice {
  Source& source;
  Track& track;
  Name& name;
  int64_t row;
  int64_t start;
  int64_t end;
  size_t lane;

  bool has(size_t argument) const {
    return !source.stream->is_null(source.first_argument() + static_cast<int64_t>(argument), row);
  }
  int64_t value(size_t argument) const {
    return source.stream->value(source.first_argument() + static_cast<int64_t>(argument), row);
  }
};

// A format. It appends to a buffer that its owner empties.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void open(const Slice& slice) = 0;
  virtual void close(Track& track, size_t lane, int64_t end) = 0;
  virtual std::string& output() = 0;
};

}  // namespace rls::timeline
