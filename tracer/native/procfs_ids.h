// Thread ids across pid namespaces.
#pragma once

#include <cstdint>
#include <map>

namespace rls {

// By the ids that the threads of `pid` see themselves: the ids that we see. None: it has ended.
std::map<std::uint32_t, std::uint32_t> TidsByInner(std::uint32_t pid);

}  // namespace rls
