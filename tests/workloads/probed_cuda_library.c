// A driver and a runtime library of CUDA that do nothing but what their names say they cost: with
// -DDRIVER libcuda.so.1, without libcudart, which takes its driver functions from
// cuGetProcAddress as the real one does.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline))

#ifdef DRIVER

// How long this thread has waited so far, by its own clock.
static __thread int64_t waited_ns;
static volatile uint64_t sink;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

// The stream says how long, in microseconds: its address. It waits for a message that never comes:
// a wait of which the OS kernel tells no reason, as it tells none of those for a device.
static int wait_for(const void* stream) {
  const int64_t begun_ns = now_ns();
  struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
  char name[32], message[8];
  struct timespec until;
  snprintf(name, sizeof(name), "/fake_cuda.%d", (int)gettid());
  const mqd_t queue = mq_open(name, O_RDONLY | O_CREAT | O_EXCL, 0600, &attributes);
  mq_unlink(name);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (int64_t)(intptr_t)stream * 1000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  mq_timedreceive(queue, message, sizeof(message), 0, &until);
  mq_close(queue);
  waited_ns += now_ns() - begun_ns;
  return 0;
}

static int work(uintptr_t amount) {
  for (uintptr_t i = 0; i < amount; ++i) sink += i;
  return 0;
}

EXPORT int cuLaunchKernel(void* stream) { return work((uintptr_t)stream & 7); }
EXPORT int cuLaunchKernel_ptsz(void* stream) { return work((uintptr_t)stream & 15); }
EXPORT int cuGraphLaunch(void* stream) { return work((uintptr_t)stream & 31); }
EXPORT int cuMemcpyHtoDAsync_v2(void* stream) { return work((uintptr_t)stream & 63); }
EXPORT int cuMemsetD8Async(void* stream) { return work((uintptr_t)stream & 127); }
EXPORT int cuStreamSynchronize(void* stream) { return wait_for(stream); }
EXPORT int cuMemAlloc_v2(void* stream) { return work((uintptr_t)stream & 255); }
EXPORT int cuMemFree_v2(void* stream) { return work((uintptr_t)stream & 511); }
EXPORT int cuDeviceGetCount(void* stream) { return work((uintptr_t)stream & 1023); }
EXPORT int64_t fakeWaitedNs(void) { return waited_ns; }

typedef int (*Function)(void*);

EXPORT int cuGetProcAddress(const char* name, Function* function) {
  static const struct {
    const char* name;
    Function function;
  } known[] = {
      {"cuLaunchKernel", cuLaunchKernel},     {"cuLaunchKernel_ptsz", cuLaunchKernel_ptsz},
      {"cuGraphLaunch", cuGraphLaunch},       {"cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2},
      {"cuMemsetD8Async", cuMemsetD8Async},   {"cuStreamSynchronize", cuStreamSynchronize},
      {"cuMemAlloc", cuMemAlloc_v2},          {"cuMemFree", cuMemFree_v2},
      {"cuDeviceGetCount", cuDeviceGetCount},
  };
  for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); ++i)
    if (strcmp(known[i].name, name) == 0) *function = known[i].function;
  return *function == 0;
}

#else

typedef int (*Function)(void*);
int cuGetProcAddress(const char* name, Function* function);

static volatile int calls;

#define CALL(runtime, driver)               \
  EXPORT int runtime(void* stream) {        \
    static Function function;               \
    Function found = function;              \
    if (!found) {                           \
      cuGetProcAddress(driver, &found);     \
      function = found;                     \
    }                                       \
    const int result = found(stream);       \
    calls += 1; /* so that it is no jump */ \
    return result;                          \
  }

CALL(cudaLaunchKernel, "cuLaunchKernel")
CALL(cudaLaunchKernel_ptsz, "cuLaunchKernel_ptsz")
CALL(cudaGraphLaunch, "cuGraphLaunch")
CALL(cudaMemcpyAsync, "cuMemcpyHtoDAsync")
CALL(cudaMemsetAsync, "cuMemsetD8Async")
CALL(cudaStreamSynchronize, "cuStreamSynchronize")
CALL(cudaMalloc, "cuMemAlloc")
CALL(cudaFree, "cuMemFree")
CALL(cudaGetDeviceCount, "cuDeviceGetCount")

#endif
