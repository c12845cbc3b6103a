// Two threads give each other the CPU, by a futex as locks do, once per round trip.
#include <pthread.h>
#include <sys/resource.h>

#include "loops.h"

// Which turn each side may begin; both are counted from 1 on.
static atomic_uint here;
static atomic_uint there;

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void let_go(atomic_uint* side, unsigned turn) {
  atomic_store(side, turn);
  rls_futex(side, FUTEX_WAKE, 1);
}

static void wait_for(atomic_uint* side, unsigned turn) {
  unsigned seen;
  while ((seen = atomic_load(side)) != turn) rls_futex(side, FUTEX_WAIT, seen);
}

static void* send_back(void* unused) {
  for (unsigned turn = 1;; ++turn) {
    wait_for(&there, turn);
    let_go(&here, turn);
  }
  return unused;
}

static int start_other_side(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, send_back, NULL) != 0) return 0;
  pthread_detach(thread);
  return 1;
}

// CPU time of this thread per round trip, and how often it left the CPU; -1: no thread can be had.
// Each trip wakes the other thread once. The process has to be kept to one CPU.
RLS_EXPORT double rls_time_switches(long trips, long* left_cpu) {
  static unsigned turn;
  if (turn == 0 && !start_other_side()) return -1;
  const long before = switches();
  const double start_ns = rls_cpu_ns();
  for (long trip = 0; trip < trips; ++trip) {
    let_go(&there, ++turn);
    wait_for(&here, turn);
  }
  const double end_ns = rls_cpu_ns();
  *left_cpu = switches() - before;
  return (end_ns - start_ns) / (double)trips;
}
