// What the machine that this is compiled for has of its own, in numbers; what its instructions look
// like is in samples/instructions_MACHINE.h and finder/site_MACHINE.cpp.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

namespace rls {

#if defined(__x86_64__)

constexpr Elf64_Half kElfMachine = EM_X86_64;
// pthread_self() is what the thread pointer says.
constexpr bool kThreadPointerIsSelf = true;
constexpr std::uint64_t kCodeAddressBits = ~std::uint64_t{0};

#elif defined(__aarch64__)

constexpr Elf64_Half kElfMachine = EM_AARCH64;
// The C library's struct lies before the thread pointer: pthread_self() is its begin.
constexpr bool kThreadPointerIsSelf = false;
// The bits above may hold a signature of the address (pointer authentication), or a tag.
constexpr std::uint64_t kCodeAddressBits = (std::uint64_t{1} << 48) - 1;

#else
#error "the recorder knows x86-64 and aarch64"
#endif

}  // namespace rls
