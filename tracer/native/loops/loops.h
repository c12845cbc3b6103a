// librlscope_loops.so: what rlscope-trace calibrate runs in a process of its own to see what an
// event costs. Called from Python by ctypes; every time is CPU time of the calling thread in ns.
#ifndef RLS_LOOPS_H
#define RLS_LOOPS_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RLS_EXPORT __attribute__((visibility("default")))

static inline double rls_clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline double rls_cpu_ns(void) { return rls_clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// Costs less than the other one: for what is too short for that.
static inline double rls_wall_ns(void) { return rls_clock_ns(CLOCK_MONOTONIC); }

static inline long rls_futex(atomic_uint* word, int operation, unsigned value) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

#endif  // RLS_LOOPS_H
