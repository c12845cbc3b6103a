// Two processes pass a byte to and fro, so that each gets the CPU once per round trip.
#include <sys/resource.h>
#include <unistd.h>

#include "loops.h"

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

// The side that begins: CPU time per round trip, and how often it left the CPU; -1: the other side
// has gone. Each trip wakes the other side once.
RLS_EXPORT double rls_ping(int out, int in, long trips, long* left_cpu) {
  char byte = 0;
  const long before = switches();
  const double start_ns = rls_cpu_ns();
  for (long trip = 0; trip < trips; ++trip)
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1) return -1;
  const double end_ns = rls_cpu_ns();
  *left_cpu = switches() - before;
  return (end_ns - start_ns) / (double)trips;
}

// The other side; false: the first has gone.
RLS_EXPORT int rls_pong(int out, int in, long trips) {
  char byte = 0;
  for (long trip = 0; trip < trips; ++trip)
    if (read(in, &byte, 1) != 1 || write(out, &byte, 1) != 1) return 0;
  return 1;
}
