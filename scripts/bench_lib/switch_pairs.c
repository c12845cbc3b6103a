// Two processes on one CPU pass a byte to and fro: prints the ns of one switch and one wakeup.
//
// usage: switch_pairs ROUND_TRIPS CPU [socket]: over two pipes, or a pair of sockets
//
// A round trip is two switches and two wakeups. Of batches of about 10 ms the fastest tenth
// decides: in the others another program may have had the CPU, or its twin.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kBatch = 2000 };

static double NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int Compare(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

static void Give(int fd) {
  if (write(fd, "x", 1) != 1) exit(1);
}

static void Take(int fd) {
  char byte;
  if (read(fd, &byte, 1) != 1) exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3 && (argc != 4 || strcmp(argv[3], "socket"))) return 2;
  const long batches = atol(argv[1]) / kBatch;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(atoi(argv[2]), &cpus);
  int there[2];
  int back[2];
  double* pair_ns = calloc((size_t)batches, sizeof(double));
  if (batches < 10 || !pair_ns || sched_setaffinity(0, sizeof(cpus), &cpus)) return 1;
  if (argc == 3) {
    if (pipe(there) || pipe(back)) return 1;
  } else {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, there)) return 1;
    back[0] = there[1];
    back[1] = there[0];
  }
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    for (long trip = 0; trip < batches * kBatch; ++trip) {
      Take(there[0]);
      Give(back[1]);
    }
    _exit(0);
  }
  for (long batch = 0; batch < batches; ++batch) {
    const double start_ns = NowNs();
    for (int trip = 0; trip < kBatch; ++trip) {
      Give(there[1]);
      Take(back[0]);
    }
    pair_ns[batch] = (NowNs() - start_ns) / (2.0 * kBatch);
  }
  qsort(pair_ns, (size_t)batches, sizeof(double), Compare);
  printf("%.1f\n", pair_ns[batches / 10]);
  return waitpid(child, NULL, 0) == child ? 0 : 1;
}
