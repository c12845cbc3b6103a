// Which mount an open file belongs to.
#pragma once

#include <cstdint>

namespace rls {

constexpr std::uint64_t kNoMount = UINT64_MAX;

// Of a descriptor of ours; kNoMount: not known. Asking for it, unlike fstat(), asks nobody but the
// OS kernel.
std::uint64_t MountOf(int fd);
// That of all memory that memfd_create gives with these flags.
std::uint64_t SharedMount(unsigned flags);

}  // namespace rls
