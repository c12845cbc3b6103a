#include "samples/code.h"

#include <algorithm>

namespace rls {
namespace {

struct Loop {
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t end = 0;  // equal: none

  std::ptrdiff_t bytes() const { return end - begin; }
  bool Holds(std::size_t at) const {
    const auto place = static_cast<std::ptrdiff_t>(at);
    return begin <= place && place < end;
  }
};

// Calls `use` with each loop around `pause` that has at most `loop_bytes` bytes.
template <typename Use>
void ForLoops(const std::uint8_t* code, std::size_t count, std::size_t pause,
              std::size_t loop_bytes, Use use) {
  const std::size_t last = std::min(count, pause + loop_bytes);
  for (std::size_t from = pause; from < last; from += kInstructionStep) {
    const Jump jump = JumpAt(code + from, count - from);
    if (jump.bytes == 0) continue;
    const auto begin = static_cast<std::ptrdiff_t>(from);
    const Loop loop = {begin + jump.distance, begin + static_cast<std::ptrdiff_t>(jump.bytes)};
    if (loop.Holds(pause) && loop.bytes() <= static_cast<std::ptrdiff_t>(loop_bytes)) use(loop);
  }
}

// Whether `use(pause)` is true of a pause (or nops in its place) so near that a loop can hold both
// it and `at`.
template <typename Use>
bool AnyPauseNear(const std::uint8_t* code, std::size_t count, std::size_t at,
                  std::size_t loop_bytes, Use use) {
  const std::size_t begin = at > loop_bytes ? at - loop_bytes : at % kInstructionStep;
  const std::size_t end = std::min(count, at + loop_bytes);
  for (std::size_t pause = begin; pause + 2 <= end; pause += kInstructionStep) {
    const std::size_t left = count - pause;
    if ((IsPause(code + pause, left) || IsIdle(code + pause, left)) && use(pause)) return true;
  }
  return false;
}

}  // namespace

bool HasPause(const std::uint8_t* code, std::size_t count, std::size_t at) {
  return AnyPauseNear(code, count, at, kPauseReach,
                      [&](std::size_t pause) { return IsPause(code + pause, count - pause); });
}

bool IsInPauseLoop(const std::uint8_t* code, std::size_t count, std::size_t at,
                   std::size_t loop_bytes) {
  return AnyPauseNear(code, count, at, loop_bytes, [&](std::size_t pause) {
    Loop shortest;
    ForLoops(code, count, pause, loop_bytes, [&](const Loop& loop) {
      if (shortest.bytes() == 0 || loop.bytes() < shortest.bytes()) shortest = loop;
    });
    return shortest.Holds(at);
  });
}

bool IsInBusyLoop(const std::uint8_t* code, std::size_t count, std::size_t at,
                  std::size_t loop_bytes) {
  return AnyPauseNear(code, count, at, loop_bytes, [&](std::size_t pause) {
    bool inside = false;
    ForLoops(code, count, pause, loop_bytes,
             [&](const Loop& loop) { inside = inside || loop.Holds(at); });
    return inside;
  });
}

}  // namespace rls
