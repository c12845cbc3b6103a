// Where the overlap engine gets its input: chunks of columns, pulled one after the other.
//
// Times are nanoseconds, intervals [start, end). Nothing here owns a column: a chunk stays valid
// until the next one is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace rls {

using Time = std::int64_t;

// Input that the engine cannot take: out of order, or an end before its start.
struct OverlapInputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct IntervalChunk {
  const Time* start = nullptr;
  const Time* end = nullptr;
  std::size_t size = 0;
  bool is_last = false;     // known to be the last one: the engine need not stop to ask
  bool is_checked = false;  // known to be in order
};

// The intervals of one category by start; they may overlap, touch and be empty.
class IntervalSource {
 public:
  virtual ~IntervalSource() = default;
  // The next chunk; an empty one is the end.
  virtual IntervalChunk Next() = 0;
};

// All of a category at once, checked, in arrays of somebody else.
class IntervalArray final : public IntervalSource {
 public:
  explicit IntervalArray(IntervalChunk all) : rest_(all) {
    rest_.is_last = true;
    rest_.is_checked = true;
  }
  IntervalChunk Next() override {
    const IntervalChunk all = rest_;
    rest_ = {};
    return all;
  }

 private:
  IntervalChunk rest_;
};

struct OperationChunk {
  const std::int32_t* code = nullptr;
  const Time* start = nullptr;
  const Time* end = nullptr;
  std::size_t size = 0;
};

// Operations by start, and of those that start together the longer ones first.
class OperationSource {
 public:
  virtual ~OperationSource() = default;
  virtual OperationChunk Next() = 0;
};

// Which operation owns the time: kNone where no operation is open, else kFirst + code. Code -1 is
// an operation that bears the name of unannotated time: its time counts as such, but it is open.
constexpr std::int32_t kUnannotated = -1;
using Owner = std::uint32_t;
constexpr Owner kNone = 0;
constexpr Owner kFirst = 2;

inline Owner OwnerOf(std::int32_t code) { return static_cast<Owner>(code + 2); }
// For results: the code, kUnannotated included.
inline std::int32_t CodeOf(Owner owner) {
  return owner < kFirst ? kUnannotated : static_cast<std::int32_t>(owner) - 2;
}

// From `time` on, `owner` owns the time.
struct OwnerChange {
  Time time;
  Owner owner;
};

struct OwnerChunk {
  const OwnerChange* change = nullptr;
  std::size_t size = 0;
};

// Changes by strictly increasing time.
class OwnerSource {
 public:
  virtual ~OwnerSource() = default;
  virtual OwnerChunk Next() = 0;
};

class OwnerArray final : public OwnerSource {
 public:
  explicit OwnerArray(OwnerChunk all) : rest_(all) {}
  OwnerChunk Next() override {
    const OwnerChunk all = rest_;
    rest_ = {};
    return all;
  }

 private:
  OwnerChunk rest_;
};

}  // namespace rls
