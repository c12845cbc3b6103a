// One thread wakes many others, which wait on one futex, without losing the CPU to them.
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "loops.h"

enum { kWaiters = 64, kStackBytes = 64 << 10 };

static atomic_uint gate;
static atomic_uint arrived;
static atomic_bool started;

static void* wait_again_and_again(void* unused) {
  for (unsigned seen = 0;; ++seen) {
    if (atomic_fetch_add(&arrived, 1) + 1 == kWaiters) rls_futex(&arrived, FUTEX_WAKE, 1);
    while (atomic_load(&gate) == seen) rls_futex(&gate, FUTEX_WAIT, seen);
  }
  return unused;
}

static bool start_waiters(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // They do not preempt whoever wakes them. Inherited by the threads, as is the one CPU.
  const struct sched_param none = {0};
  sched_setscheduler(0, SCHED_BATCH, &none);
  for (int waiter = 0; waiter < kWaiters; ++waiter) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, wait_again_and_again, NULL) != 0) return false;
  }
  pthread_attr_destroy(&attributes);
  return true;
}

static void wait_for_all(void) {
  unsigned count;
  while ((count = atomic_load(&arrived)) < kWaiters) rls_futex(&arrived, FUTEX_WAIT, count);
  // The last one to arrive may not sleep yet: it is this CPU's next.
  sched_yield();
}

// CPU time of one wakeup, of `rounds` times all waiters; -1: no threads can be had. The process has
// to be kept to one CPU, and is from then on full of threads.
RLS_EXPORT double rls_time_wakes(long rounds) {
  if (!atomic_exchange(&started, true) && !start_waiters()) return -1;
  double total_ns = 0;
  long woken = 0;
  for (long round = 0; round < rounds; ++round) {
    wait_for_all();
    atomic_store(&arrived, 0);
    atomic_fetch_add(&gate, 1);
    const double start_ns = rls_cpu_ns();
    woken += rls_futex(&gate, FUTEX_WAKE, INT_MAX);
    total_ns += rls_cpu_ns() - start_ns;
  }
  wait_for_all();
  return woken > 0 ? total_ns / (double)woken : -1;
}
