/*
 * Code of a simulator: by itself, in libc on its behalf, and waiting. Each function uses the given
 * CPU time of its thread, in nanoseconds, and returns how much it was.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <time.h>

static char from[1 << 16], to[1 << 16];
static volatile double sink;
static volatile int flag;

static int64_t now(void) {
  struct timespec time;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int64_t compute_for(int64_t ns) {
  int64_t begin = now(), at = begin;

  while ((at = now()) < begin + ns) {
    double value = sink;

    for (int turn = 0; turn < 20000; turn++) value = value * 0.999999 + (double)turn;
    sink = value;
  }
  return at - begin;
}

int64_t copy_for(int64_t ns) {
  int64_t begin = now(), at = begin;

  while ((at = now()) < begin + ns)
    for (int turn = 0; turn < 100; turn++) memcpy(to, from, sizeof(to) - (size_t)flag);
  return at - begin;
}

int64_t spin_for(int64_t ns) {
  int64_t begin = now(), at = begin;

  while ((at = now()) < begin + ns)
    for (int turn = 0; turn < 2000 && !flag; turn++) __builtin_ia32_pause();
  return at - begin;
}
