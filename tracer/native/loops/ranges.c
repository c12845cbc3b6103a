// A C program that marks NVTX ranges, by the client that automatic phases use.
#include <stddef.h>

#include "loops.h"
#include "nvtx_client.h"

// Whether the tool is there that NVTX_INJECTION64_PATH names.
RLS_EXPORT int rls_is_heard(void) { return rls_nvtx_available(); }

// CPU time of one push and one pop; without a tool that of a program that nobody listens to.
RLS_EXPORT double rls_time_ranges(long count) {
  static void* name;
  if (name == NULL) name = rls_nvtx_register("c");
  const double start_ns = rls_cpu_ns();
  for (long range = 0; range < count; ++range) {
    rls_nvtx_push(name, 0, false);
    rls_nvtx_pop();
  }
  return (rls_cpu_ns() - start_ns) / (double)count;
}
