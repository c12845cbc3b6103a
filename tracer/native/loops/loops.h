// librlscope_loops.so: what rlscope-trace calibrate runs in a process of its own to see what an
// event costs. Called from Python by ctypes; every time is CPU time of the calling thread in ns.
#ifndef RLS_LOOPS_H
#define RLS_LOOPS_H

#include <time.h>

#define RLS_EXPORT __attribute__((visibility("default")))

static inline double rls_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#endif  // RLS_LOOPS_H
