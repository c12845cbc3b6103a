// What calls of CUDA ask a GPU for.
#pragma once

#include <cstdint>
#include <string_view>

namespace rls {

// CUPTI's activity kinds of the work that a function asks for, as bits; 0: it asks for none. For
// names that are of kind launch, graph, memcpy or memset in the tables of calls.
std::uint64_t CudaWorkOf(std::string_view function);

}  // namespace rls
