// Thread ids across pid namespaces.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>

namespace rls {

// By the ids that the threads of `pid` see themselves: the ids that we see. None: it has ended.
std::map<std::uint32_t, std::uint32_t> TidsByInner(std::uint32_t pid);
// Of the text of /proc/PID/status: the id in the innermost namespace; 0: it is not reported.
std::uint32_t InnerTidOf(std::istream& status);

}  // namespace rls
