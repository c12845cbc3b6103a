// The highest rate of switches: two threads on each of CPUS CPUs give it to each other.
//
// usage: yield_load SECONDS CPUS
//
// Prints "ready"; at a line on stdin yields for SECONDS, prints how often, and stays until its
// input ends, so that a recorder that waits for its end goes on recording.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kMaxThreads = 128, kBatch = 100 };

struct Yielder {
  pthread_t thread;
  int cpu;
};

static double seconds;
static atomic_long all_yields;

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void* Yield(void* argument) {
  const struct Yielder* self = argument;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(self->cpu, &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
  const double end = Now() + seconds;
  long count = 0;
  for (; Now() < end; count += kBatch)
    for (int i = 0; i < kBatch; ++i) sched_yield();
  atomic_fetch_add(&all_yields, count);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  seconds = atof(argv[1]);
  const int wanted = atoi(argv[2]);
  static struct Yielder yielders[kMaxThreads];
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed)) return 1;
  char line[16];
  puts("ready");
  fflush(stdout);
  if (!fgets(line, sizeof(line), stdin)) return 0;
  int threads = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && threads < 2 * wanted; ++cpu) {
    for (int i = 0; CPU_ISSET(cpu, &allowed) && i < 2 && threads < kMaxThreads; ++i) {
      struct Yielder* yielder = &yielders[threads];
      yielder->cpu = cpu;
      if (pthread_create(&yielder->thread, NULL, Yield, yielder)) return 1;
      ++threads;
    }
  }
  for (int i = 0; i < threads; ++i) pthread_join(yielders[i].thread, NULL);
  printf("%ld\n", all_yields);
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin)) continue;
  return 0;
}
