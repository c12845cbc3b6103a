#include "inject/inject.h"

namespace rls {

// The frame that brings a thread back, and where a call finds its arguments, are of x86-64.
Injected Inject(pid_t, const Injection&) {
  throw InjectError("libraries are loaded into running programs on x86-64 only");
}

}  // namespace rls
