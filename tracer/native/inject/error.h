// Why a library was not loaded into a process; the process goes on as if we had not been there.
#pragma once

#include <stdexcept>

namespace rls {

class InjectError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace rls
