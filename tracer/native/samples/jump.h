// A jump within machine code.
#pragma once

#include <cstddef>

namespace rls {

struct Jump {
  std::size_t bytes = 0;        // 0: none
  std::ptrdiff_t distance = 0;  // from its first byte to where it leads
};

}  // namespace rls
