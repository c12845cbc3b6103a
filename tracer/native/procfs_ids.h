// Thread ids across pid namespaces.
#pragma once

#include <cstdint>

namespace rls {

// The id that we see of the thread of `pid` which sees itself as `inner_tid`; 0: no such thread any
// more.
std::uint32_t TidOfInner(std::uint32_t pid, std::uint32_t inner_tid);

}  // namespace rls
