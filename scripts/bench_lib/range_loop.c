// Marks NVTX ranges: prints the ns that one push and pop take.
//
// usage: range_loop BATCHES
//
// A batch is 1,000 ranges, followed by a pause of a millisecond, so that the recorder keeps up and
// what is measured is the program's side. Of the batches the fastest tenth decides: in the others
// another program may have had the CPU.
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kBatch = 1000 };

static double CpuNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int Compare(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

int main(int argc, char** argv) {
  const int batches = argc > 1 ? atoi(argv[1]) : 300;
  double* per_range = calloc((size_t)batches, sizeof(*per_range));
  const struct timespec pause = {0, 1000000};
  for (int batch = 0; batch < batches; ++batch) {
    const double before = CpuNs();
    for (int count = 0; count < kBatch; ++count) {
      nvtxRangePushA("one of the ranges of a loop");
      nvtxRangePop();
    }
    per_range[batch] = (CpuNs() - before) / kBatch;
    nanosleep(&pause, NULL);
  }
  qsort(per_range, (size_t)batches, sizeof(*per_range), Compare);
  printf("%.2f\n", per_range[batches / 10]);
  return 0;
}
