// What machine code says by its bytes, without disassembling the function it is part of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "samples/instructions.h"

namespace rls {

// The longest form of a call, of a function or of sched_yield; how far around an address a pause is
// looked for, the longest loop that does nothing but wait, and the longest by which LLVM's and
// Intel's OpenMP wait: it also looks for tasks, at the clock, and whether others want the CPU.
constexpr std::size_t kCallBytes = 8;
constexpr std::size_t kPauseReach = 16;
constexpr std::size_t kLoopBytes = 96;
constexpr std::size_t kBusyLoopBytes = 1024;

// Whether there is a pause instruction within kPauseReach of `code[at]`.
bool HasPause(const std::uint8_t* code, std::size_t count, std::size_t at);

// Whether `code[at]` lies in the shortest loop around a pause instruction, or around eight `nop` in
// its place, of at most `loop_bytes` bytes: one that does little but wait. A longer loop around it
// may work and wait now and then.
bool IsInPauseLoop(const std::uint8_t* code, std::size_t count, std::size_t at,
                   std::size_t loop_bytes);

// Whether it lies in any such loop.
bool IsInBusyLoop(const std::uint8_t* code, std::size_t count, std::size_t at,
                  std::size_t loop_bytes);

}  // namespace rls
