// Instructions of aarch64: words of four bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "samples/jump.h"

namespace rls {

constexpr std::size_t kInstructionStep = 4;

// The instruction at `code`; 0, which is none, where it is cut off.
inline std::uint32_t WordAt(const std::uint8_t* code, std::size_t count) {
  std::uint32_t word = 0;
  if (count >= sizeof(word)) std::memcpy(&word, code, sizeof(word));
  return word;
}

// A signed field of `bits` bits that begins at bit `low`, in bytes: it counts instructions.
inline std::ptrdiff_t DistanceIn(std::uint32_t word, unsigned low, unsigned bits) {
  const auto shifted = static_cast<std::int32_t>(word << (32 - low - bits));
  return std::ptrdiff_t{shifted >> (32 - bits)} * 4;
}

// The jump at `code`, conditional or not: b, b.cond, cbz, cbnz, tbz, tbnz.
inline Jump JumpAt(const std::uint8_t* code, std::size_t count) {
  const std::uint32_t word = WordAt(code, count);
  if ((word & 0xfc000000) == 0x14000000) return {4, DistanceIn(word, 0, 26)};
  if ((word & 0xff000000) == 0x54000000) return {4, DistanceIn(word, 5, 19)};
  if ((word & 0x7e000000) == 0x34000000) return {4, DistanceIn(word, 5, 19)};
  if ((word & 0x7e000000) == 0x36000000) return {4, DistanceIn(word, 5, 14)};
  return {};
}

// yield, wfe, and isb, which waits longer: libraries take any of them.
inline bool IsPause(const std::uint8_t* code, std::size_t count) {
  const std::uint32_t word = WordAt(code, count);
  return word == 0xd503203f || word == 0xd503205f || word == 0xd5033fdf;
}

// Eight times `nop`: how OpenBLAS waits.
inline bool IsIdle(const std::uint8_t* code, std::size_t count) {
  constexpr std::size_t kNops = 8;
  for (std::size_t nop = 0; nop < kNops; ++nop)
    if (count < nop * 4 || WordAt(code + nop * 4, count - nop * 4) != 0xd503201f) return false;
  return true;
}

// Whether the `count` bytes end in a call, which stands before every return address: bl, or blr
// with and without a signature of the address.
inline bool EndsInCall(const std::uint8_t* code, std::size_t count) {
  if (count < 4) return false;
  const std::uint32_t word = WordAt(code + count - 4, 4);
  return (word & 0xfc000000) == 0x94000000 || (word & 0xfffffc1f) == 0xd63f0000 ||
         (word & 0xfefff800) == 0xd63f0800;
}

// Whether they end in the system call sched_yield.
inline bool EndsInYield(const std::uint8_t* code, std::size_t count) {
  // mov x8, #124; svc #0
  return count >= 8 && WordAt(code + count - 8, 4) == 0xd2800f88 &&
         WordAt(code + count - 4, 4) == 0xd4000001;
}

}  // namespace rls
