// Instructions of x86-64, by their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "samples/jump.h"

namespace rls {

// They begin anywhere.
constexpr std::size_t kInstructionStep = 1;

// Bytes of `call r/m` without prefixes, by the byte behind its opcode and the one after that.
inline std::size_t IndirectCallBytes(std::uint8_t modrm, std::uint8_t sib) {
  const unsigned mode = modrm >> 6;
  const unsigned base = modrm & 7;
  if (mode == 3) return 2;
  const std::size_t with_sib = base == 4 ? 3 : 2;
  if (mode == 1) return with_sib + 1;
  if (mode == 2) return with_sib + 4;
  const bool has_offset = base == 5 || (base == 4 && (sib & 7) == 5);
  return with_sib + (has_offset ? 4 : 0);
}

// The jump at `code`, conditional or not.
inline Jump JumpAt(const std::uint8_t* code, std::size_t count) {
  if (count >= 2 && (code[0] == 0xeb || (code[0] & 0xf0) == 0x70))
    return {2, 2 + std::ptrdiff_t{static_cast<std::int8_t>(code[1])}};
  const std::size_t opcode = count >= 2 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80 ? 2
                             : count >= 1 && code[0] == 0xe9                           ? 1
                                                                                       : 0;
  if (opcode == 0 || count < opcode + 4) return {};
  std::int32_t distance = 0;
  std::memcpy(&distance, code + opcode, sizeof(distance));
  return {opcode + 4, static_cast<std::ptrdiff_t>(opcode) + 4 + distance};
}

inline bool IsPause(const std::uint8_t* code, std::size_t count) {
  return count >= 2 && code[0] == 0xf3 && code[1] == 0x90;
}

// Eight times `nop`: how OpenBLAS waits. Compilers fill gaps with long ones instead.
inline bool IsIdle(const std::uint8_t* code, std::size_t count) {
  constexpr std::uint8_t kNops[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
  return count >= sizeof(kNops) && std::memcmp(code, kNops, sizeof(kNops)) == 0;
}

// Whether the `count` bytes end in a call: what stands before every return address.
inline bool EndsInCall(const std::uint8_t* code, std::size_t count) {
  if (count >= 5 && code[count - 5] == 0xe8) return true;
  for (const std::size_t bytes : {2U, 3U, 4U, 6U, 7U}) {
    if (count < bytes) return false;
    const std::uint8_t* call = code + count - bytes;
    if (call[0] != 0xff || ((call[1] >> 3) & 7) != 2) continue;
    if (IndirectCallBytes(call[1], bytes > 2 ? call[2] : 0) == bytes) return true;
  }
  return false;
}

// Whether they end in the system call sched_yield.
inline bool EndsInYield(const std::uint8_t* code, std::size_t count) {
  constexpr std::uint8_t kYield[] = {0xb8, 0x18, 0, 0, 0, 0x0f, 0x05};  // mov $24, %eax; syscall
  return count >= sizeof(kYield) &&
         std::memcmp(code + count - sizeof(kYield), kYield, sizeof(kYield)) == 0;
}

}  // namespace rls
