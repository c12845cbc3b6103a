// How pthread_self(), by which an interpreter knows its threads, lies to the thread pointer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace rls {

// Bytes from the one to the other, in this process; nullopt: its C library does not say.
std::optional<std::uint16_t> SelfBeforeThreadPointer(pid_t pid);

}  // namespace rls
