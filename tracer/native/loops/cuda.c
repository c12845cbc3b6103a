// Calls of the CUDA driver, whose functions the caller has found: this library knows no CUDA.
#include "loops.h"

typedef int (*launch_function)(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, void* stream, void** arguments, void** extra);
typedef int (*unary_function)(void* argument);

// CPU time of one launch of a kernel without arguments; -1: one failed. So few at once that the
// queue of the GPU does not fill up.
RLS_EXPORT double rls_time_launches(launch_function launch, void* kernel, void* stream,
                                    long count) {
  int failed = 0;
  const double start_ns = rls_cpu_ns();
  for (long call = 0; call < count; ++call)
    failed |= launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
  return failed ? -1 : (rls_cpu_ns() - start_ns) / (double)count;
}

// CPU time of one call of a function that takes a pointer, whatever it returns.
RLS_EXPORT double rls_time_unary(unary_function function, void* argument, long count) {
  const double start_ns = rls_cpu_ns();
  for (long call = 0; call < count; ++call) function(argument);
  return (rls_cpu_ns() - start_ns) / (double)count;
}
