// What the fake driver tells the fake CUPTI. The real ones have such a link too, which is private.
#ifndef FAKE_LINK_H
#define FAKE_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

// As CUPTI numbers the domains of its callbacks.
enum fake_domain { FAKE_DRIVER = 1, FAKE_RUNTIME = 2 };

// As CUPTI numbers its kinds of activity.
enum fake_kind {
  FAKE_MEMCPY = 1,
  FAKE_MEMSET = 2,
  FAKE_DRIVER_CALL = 4,
  FAKE_RUNTIME_CALL = 5,
  FAKE_CONTEXT = 9,
  FAKE_KERNEL = 10,
  FAKE_OVERHEAD = 17,
  FAKE_PEER = 22,
  FAKE_STREAM = 37,
  FAKE_SYNC = 38,
  FAKE_MEMORY = 49,
  FAKE_GRAPH = 51,
  FAKE_KINDS = 64,
};

// The numbers (cbid) and names that CUPTI gives to functions.
// clang-format off
#define FAKE_CALLS(call) \
  call(FAKE_DRIVER, 1, cuInit) \
  call(FAKE_DRIVER, 17, cuCtxSynchronize) \
  call(FAKE_DRIVER, 19, cuModuleLoadData) \
  call(FAKE_DRIVER, 23, cuModuleGetFunction) \
  call(FAKE_DRIVER, 124, cuStreamCreate) \
  call(FAKE_DRIVER, 126, cuStreamSynchronize) \
  call(FAKE_DRIVER, 216, cuMemsetD8Async) \
  call(FAKE_DRIVER, 235, cuCtxCreate_v2) \
  call(FAKE_DRIVER, 243, cuMemAlloc_v2) \
  call(FAKE_DRIVER, 245, cuMemFree_v2) \
  call(FAKE_DRIVER, 277, cuMemcpyHtoDAsync_v2) \
  call(FAKE_DRIVER, 279, cuMemcpyDtoHAsync_v2) \
  call(FAKE_DRIVER, 303, cuCtxSetCurrent) \
  call(FAKE_DRIVER, 304, cuCtxGetCurrent) \
  call(FAKE_DRIVER, 307, cuLaunchKernel) \
  call(FAKE_DRIVER, 319, cuMemcpyPeerAsync) \
  call(FAKE_DRIVER, 322, cuCtxDestroy_v2) \
  call(FAKE_DRIVER, 326, cuStreamDestroy_v2) \
  call(FAKE_DRIVER, 386, cuDevicePrimaryCtxRetain) \
  call(FAKE_DRIVER, 497, cuStreamEndCapture) \
  call(FAKE_DRIVER, 514, cuGraphLaunch) \
  call(FAKE_DRIVER, 539, cuStreamBeginCapture_v2) \
  call(FAKE_DRIVER, 643, cuGraphInstantiateWithFlags) \
  call(FAKE_RUNTIME, 3, cudaGetDeviceCount_v3020) \
  call(FAKE_RUNTIME, 16, cudaSetDevice_v3020) \
  call(FAKE_RUNTIME, 17, cudaGetDevice_v3020) \
  call(FAKE_RUNTIME, 20, cudaMalloc_v3020) \
  call(FAKE_RUNTIME, 22, cudaFree_v3020) \
  call(FAKE_RUNTIME, 41, cudaMemcpyAsync_v3020) \
  call(FAKE_RUNTIME, 51, cudaMemsetAsync_v3020) \
  call(FAKE_RUNTIME, 129, cudaStreamCreate_v3020) \
  call(FAKE_RUNTIME, 131, cudaStreamSynchronize_v3020) \
  call(FAKE_RUNTIME, 165, cudaDeviceSynchronize_v3020) \
  call(FAKE_RUNTIME, 201, cudaStreamDestroy_v5050) \
  call(FAKE_RUNTIME, 211, cudaLaunchKernel_v7000) \
  call(FAKE_RUNTIME, 311, cudaGraphLaunch_v10000) \
  call(FAKE_RUNTIME, 315, cudaStreamBeginCapture_v10000) \
  call(FAKE_RUNTIME, 319, cudaStreamEndCapture_v10000) \
  call(FAKE_RUNTIME, 418, cudaGraphInstantiateWithFlags_v11040)
// clang-format on

struct fake_name {
  uint32_t domain;
  uint32_t function;
  const char* text;
};
#define FAKE_NAME(domain, function, text) {domain, function, #text},
#define FAKE_FUNCTIONS 800

// One thing that happened. Times of calls are the listener's, the others CLOCK_MONOTONIC.
struct fake_event {
  uint32_t kind;
  uint32_t detail;  // how it was copied, what was waited for, what took time, 2: freed
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t bytes;
  uint64_t address;
  uint64_t node;
  const char* name;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t graph;
  uint32_t peer_device;
  uint32_t correlation;
  uint32_t function;
  uint32_t result;
};

struct fake_listener {
  void (*heard)(const struct fake_event* event);
  uint64_t (*now)(void);  // the clock of calls
};

struct fake_call {
  uint32_t domain;
  uint32_t function;
  uint64_t start_ns;  // 0: nobody listened
};

// Of the fake driver. NULL: nobody listens any more.
FAKE_EXPORT void fakecuda_listen(const struct fake_listener* listener);
FAKE_EXPORT void fakecuda_enter(struct fake_call* call, uint32_t domain, uint32_t function);
FAKE_EXPORT int fakecuda_leave(const struct fake_call* call, int result);
// Tells the contexts or streams that there are, by CUPTI's kind.
FAKE_EXPORT void fakecuda_tell_existing(uint32_t kind);
// Whether this thread is in the start of a library that cuInit loaded.
FAKE_EXPORT int fakecuda_is_injecting(void);
// What was called and what ran so far, as JSON, in memory that the next call overwrites.
FAKE_EXPORT const char* fakecuda_truth(void);

static inline uint64_t fake_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#endif  // FAKE_LINK_H
