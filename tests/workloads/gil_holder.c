/*
 * Holding the GIL for known times, and how long threads wait for it, measured where they wait.
 *
 * For ctypes.PyDLL, which calls with the GIL held. No header of Python: one build serves every
 * version, whose names are found in the running interpreter. All is done in one call each, so that
 * no thread gives the GIL away, or waits for it, at any other place.
 *
 *   gil_hold(times, hold_ns, pause_ns, told): `times` times keep the GIL and compute until so much
 *       CPU time is over, then give it away, sleep, and take it back. Afterwards gil_want() ends.
 *   gil_want(told): give it away, take it back at once, compute for a moment, and again
 */
#include <stdint.h>
#include <time.h>

extern void* PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void* state);

enum { ROOM = 4000, NOTABLE_NS = 100000 };

/* In ns of CLOCK_MONOTONIC. */
struct wait {
  int64_t begin_ns;
  int64_t end_ns;
};

/* What one thread measured: how often it took the GIL back, how long that took, and the long ones.
 */
struct told {
  int64_t wants;
  int64_t waited_ns;
  int64_t kept;
  struct wait waits[ROOM];
};

static volatile int is_over;
static volatile double sink;

static int64_t now(clockid_t clock) {
  struct timespec time;

  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void compute(int64_t ns) {
  int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;

  while (now(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 500; i++) sink = sink * 0.5 + i;
}

static void take_back(void* state, struct told* told) {
  struct wait wait;

  wait.begin_ns = now(CLOCK_MONOTONIC);
  PyEval_RestoreThread(state);
  wait.end_ns = now(CLOCK_MONOTONIC);
  told->wants++;
  told->waited_ns += wait.end_ns - wait.begin_ns;
  if (wait.end_ns - wait.begin_ns > NOTABLE_NS && told->kept < ROOM)
    told->waits[told->kept++] = wait;
}

void gil_hold(int64_t times, int64_t hold_ns, int64_t pause_ns, struct told* told) {
  struct timespec pause = {pause_ns / 1000000000, pause_ns % 1000000000};

  for (int64_t i = 0; i < times; i++) {
    void* state;

    compute(hold_ns);
    state = PyEval_SaveThread();
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, 0);
    take_back(state, told);
  }
  is_over = 1;
}

void gil_want(struct told* told) {
  while (!is_over) {
    take_back(PyEval_SaveThread(), told);
    compute(20000);
  }
}
