#include "samples/code.h"

#include <algorithm>
#include <cstring>

namespace rls {
namespace {

// Bytes of `call r/m` without prefixes, by the byte behind its opcode and the one after that.
std::size_t IndirectCallBytes(std::uint8_t modrm, std::uint8_t sib) {
  const unsigned mode = modrm >> 6;
  const unsigned base = modrm & 7;
  if (mode == 3) return 2;
  const std::size_t with_sib = base == 4 ? 3 : 2;
  if (mode == 1) return with_sib + 1;
  if (mode == 2) return with_sib + 4;
  const bool has_offset = base == 5 || (base == 4 && (sib & 7) == 5);
  return with_sib + (has_offset ? 4 : 0);
}

struct Jump {
  std::size_t bytes = 0;  // 0: none
  std::ptrdiff_t distance = 0;
};

// The jump at `code`, conditional or not.
Jump JumpAt(const std::uint8_t* code, std::size_t count) {
  if (count >= 2 && (code[0] == 0xeb || (code[0] & 0xf0) == 0x70))
    return {2, static_cast<std::int8_t>(code[1])};
  const std::size_t opcode = count >= 2 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? 2
                             : count >= 1 && code[0] == 0xe9                           ? 1
                                                                                       : 0;
  if (opcode == 0 || count < opcode + 4) return {};
  std::int32_t distance = 0;
  std::memcpy(&distance, code + opcode, sizeof(distance));
  return {opcode + 4, distance};
}

bool IsPause(const std::uint8_t* code) { return code[0] == 0xf3 && code[1] == 0x90; }

// Eight times `nop`: how OpenBLAS waits. Compilers fill gaps with long ones instead.
bool IsIdle(const std::uint8_t* code, std::size_t count) {
  constexpr std::uint8_t kNops[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
  return count >= sizeof(kNops) && std::memcmp(code, kNops, sizeof(kNops)) == 0;
}

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
  for (std::size_t from = pause; from < std::min(count, pause + loop_bytes); ++from) {
    const Jump jump = JumpAt(code + from, count - from);
    if (jump.bytes == 0) continue;
    const auto end = static_cast<std::ptrdiff_t>(from + jump.bytes);
    const Loop loop = {end + jump.distance, end};
    if (loop.Holds(pause) && loop.bytes() <= static_cast<std::ptrdiff_t>(loop_bytes)) use(loop);
  }
}

// Whether `use(pause)` is true of a pause (or nops in its place) so near that a loop can hold both
// it and `at`.
template <typename Use>
bool AnyPauseNear(const std::uint8_t* code, std::size_t count, std::size_t at,
                  std::size_t loop_bytes, Use use) {
  const std::size_t begin = at > loop_bytes ? at - loop_bytes : 0;
  const std::size_t end = std::min(count, at + loop_bytes);
  for (std::size_t pause = begin; pause + 2 <= end; ++pause)
    if ((IsPause(code + pause) || IsIdle(code + pause, count - pause)) && use(pause)) return true;
  return false;
}

}  // namespace

bool EndsInCall(const std::uint8_t* code, std::size_t count) {
  if (count >= 5 && code[count - 5] == 0xe8) return true;
  for (const std::size_t bytes : {2U, 3U, 4U, 6U, 7U}) {
    if (count < bytes) return false;
    const std::uint8_t* call = code + count - bytes;
    if (call[0] != 0xff || ((call[1] >> 3) & 7) != 2) continue;
    if (IndirectCallBytes(call[1], bytes > 2 ? call[2] : 0) == bytes) return true;
  }
  return false;
}

bool HasPause(const std::uint8_t* code, std::size_t count, std::size_t at) {
  return AnyPauseNear(code, count, at, kPauseReach,
                      [&](std::size_t pause) { return IsPause(code + pause); });
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

bool EndsInYield(const std::uint8_t* code, std::size_t count) {
  constexpr std::uint8_t kYield[] = {0xb8, 0x18, 0, 0, 0, 0x0f, 0x05};  // mov $24, %eax; syscall
  return count >= sizeof(kYield) &&
         std::memcmp(code + count - sizeof(kYield), kYield, sizeof(kYield)) == 0;
}

}  // namespace rls
