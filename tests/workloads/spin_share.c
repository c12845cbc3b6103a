/*
 * Computes and spins in turn, and tells the CPU time of both: a program, and a library.
 *
 *   spin_for(ns)      a loop around the `pause` instruction, as thread pools wait
 *   compute_for(ns)   arithmetic
 * both until the thread has used so much CPU time; they return how much it was.
 *
 * As a program: spin_share SECONDS SPIN_PERCENT, after a line on stdin; says `ready PID` first and
 * ends with one JSON object: spin_ns, compute_ns, start_ns, end_ns, tid.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t now(clockid_t clock) {
  struct timespec time;

  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static volatile int flag;
static volatile double sink;

/* Looks at the clock so rarely that the look is no share of its own. */
int64_t spin_for(int64_t ns) {
  int64_t begin = now(CLOCK_THREAD_CPUTIME_ID), at = begin;

  while (at < begin + ns) {
    for (int turn = 0; turn < 2000 && !flag; turn++) __builtin_ia32_pause();
    at = now(CLOCK_THREAD_CPUTIME_ID);
  }
  return at - begin;
}

int64_t compute_for(int64_t ns) {
  int64_t begin = now(CLOCK_THREAD_CPUTIME_ID), at = begin;

  while (at < begin + ns) {
    double value = sink;

    for (int turn = 0; turn < 20000; turn++) value = value * 0.999999 + (double)turn;
    sink = value;
    at = now(CLOCK_THREAD_CPUTIME_ID);
  }
  return at - begin;
}

int main(int count, char** arguments) {
  double seconds = count > 1 ? atof(arguments[1]) : 2;
  int64_t percent = count > 2 ? atoi(arguments[2]) : 40;
  int64_t spin_ns = 0, compute_ns = 0, start_ns;

  printf("ready %d\n", getpid());
  fflush(stdout);
  getchar();
  start_ns = now(CLOCK_MONOTONIC);
  while (spin_ns + compute_ns < (int64_t)(seconds * 1e9)) {
    spin_ns += spin_for(percent * 100000);
    compute_ns += compute_for((100 - percent) * 100000);
  }
  printf(
      "{\"pid\": %d, \"tid\": %d, \"spin_ns\": %ld, \"compute_ns\": %ld, \"start_ns\": %ld,"
      " \"end_ns\": %ld}\n",
      getpid(), gettid(), spin_ns, compute_ns, start_ns, now(CLOCK_MONOTONIC));
  return 0;
}
