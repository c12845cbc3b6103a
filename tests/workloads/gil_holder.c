/*
 * Holding the GIL for known times, and how long threads wait for it, measured where they wait.
 *
 * For ctypes.PyDLL, which calls with the GIL held. No header of Python: one build serves every
 * version, whose names are found in the running interpreter.
 *
 *   gil_hold(ns)             keep the GIL and compute until so much CPU time is over
 *   gil_pause(ns)            give the GIL away, sleep, take it back
 *   gil_want(waits, count)   `count` times: give it away, and take it back at once; waits[i]: from
 *                            the moment it was wanted to the moment it was there, begin and end
 *                            in ns of CLOCK_MONOTONIC
 */
#include <stdint.h>
#include <time.h>

extern void* PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void* state);

struct wait {
  int64_t begin_ns;
  int64_t end_ns;
};

static int64_t now(clockid_t clock) {
  struct timespec time;

  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static volatile double sink;

void gil_hold(int64_t ns) {
  int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

  while (now(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 500; i++) sink = sink * 0.5 + i;
}

static void take_back(void* state, struct wait* wait) {
  wait->begin_ns = now(CLOCK_MONOTONIC);
  PyEval_RestoreThread(state);
  wait->end_ns = now(CLOCK_MONOTONIC);
}

void gil_pause(int64_t ns, struct wait* wait) {
  struct timespec time = {ns / 1000000000, ns % 1000000000};
  void* state = PyEval_SaveThread();

  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
  take_back(state, wait);
}

void gil_want(struct wait* waits, int64_t count) {
  for (int64_t i = 0; i < count; i++) take_back(PyEval_SaveThread(), &waits[i]);
}
