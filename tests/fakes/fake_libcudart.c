// A CUDA runtime (libcudart.so.N) on top of the fake driver, which it loads when it is needed
// first.
//
// A host function is a pointer to the kernel's name here.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "fake_link.h"

#define MAX_DEVICES 8
#define MAX_KERNELS 64

struct dim3 {
  unsigned x, y, z;
};

// The driver's functions, under the names that they have there.
static struct {
  int (*cuInit)(unsigned);
  int (*cuDeviceGetCount)(int*);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuCtxSetCurrent)(void*);
  int (*cuCtxSynchronize)(void);
  int (*cuMemAlloc_v2)(void**, size_t);
  int (*cuMemFree_v2)(void*);
  int (*cuModuleGetFunction)(void**, void*, const char*);
  int (*cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        void*, void**, void**);
  int (*cuMemcpyHtoDAsync_v2)(void*, const void*, size_t, void*);
  int (*cuMemcpyDtoHAsync_v2)(void*, const void*, size_t, void*);
  int (*cuMemsetD8Async)(void*, unsigned char, size_t, void*);
  int (*cuStreamCreate)(void**, unsigned);
  int (*cuStreamDestroy_v2)(void*);
  int (*cuStreamSynchronize)(void*);
  int (*cuStreamBeginCapture_v2)(void*, int);
  int (*cuStreamEndCapture)(void*, void**);
  int (*cuGraphInstantiateWithFlags)(void**, void*, uint64_t);
  int (*cuGraphLaunch)(void*, void*);
  void (*fakecuda_enter)(struct fake_call*, uint32_t, uint32_t);
  int (*fakecuda_leave)(const struct fake_call*, int);
} driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int init_result = 35;  // cudaErrorInsufficientDriver: there is none
static __thread int device;
static __thread int active = -1;  // the device whose context is current

static void load(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return;
#define LOAD(name) *(void**)&driver.name = dlsym(library, #name)
  LOAD(cuInit), LOAD(cuDeviceGetCount), LOAD(cuDevicePrimaryCtxRetain), LOAD(cuCtxSetCurrent);
  LOAD(cuCtxSynchronize), LOAD(cuMemAlloc_v2), LOAD(cuMemFree_v2), LOAD(cuModuleGetFunction);
  LOAD(cuLaunchKernel), LOAD(cuMemcpyHtoDAsync_v2), LOAD(cuMemcpyDtoHAsync_v2);
  LOAD(cuMemsetD8Async), LOAD(cuStreamCreate), LOAD(cuStreamDestroy_v2), LOAD(cuStreamSynchronize);
  LOAD(cuStreamBeginCapture_v2), LOAD(cuStreamEndCapture), LOAD(cuGraphInstantiateWithFlags);
  LOAD(cuGraphLaunch), LOAD(fakecuda_enter), LOAD(fakecuda_leave);
#undef LOAD
  init_result = driver.cuInit(0);
}

// The driver is there, and the context of the thread's device is current.
static int ready(void) {
  pthread_once(&once, load);
  if (init_result != 0 || active == device) return init_result;
  void* context;
  int result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (result == 0) result = driver.cuCtxSetCurrent(context);
  if (result == 0) active = device;
  return result;
}

// As an API call with a cbid of its own around what the driver does.
#define CALL(function, expression)                      \
  const int state = ready();                            \
  if (state != 0) return state;                         \
  struct fake_call call;                                \
  driver.fakecuda_enter(&call, FAKE_RUNTIME, function); \
  return driver.fakecuda_leave(&call, expression)

FAKE_EXPORT int cudaGetDeviceCount(int* count) { CALL(3, driver.cuDeviceGetCount(count)); }
FAKE_EXPORT int cudaSetDevice(int wanted) {
  device = wanted;
  CALL(16, 0);
}
FAKE_EXPORT int cudaGetDevice(int* found) { CALL(17, (*found = device, 0)); }
FAKE_EXPORT int cudaMalloc(void** address, size_t bytes) {
  CALL(20, driver.cuMemAlloc_v2(address, bytes));
}
FAKE_EXPORT int cudaFree(void* address) { CALL(22, driver.cuMemFree_v2(address)); }
FAKE_EXPORT int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  CALL(41, kind == 1 ? driver.cuMemcpyHtoDAsync_v2(to, from, bytes, stream)
                     : driver.cuMemcpyDtoHAsync_v2(to, from, bytes, stream));
}
FAKE_EXPORT int cudaMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  CALL(51, driver.cuMemsetD8Async(to, (unsigned char)value, bytes, stream));
}
FAKE_EXPORT int cudaStreamCreate(void** stream) { CALL(129, driver.cuStreamCreate(stream, 0)); }
FAKE_EXPORT int cudaStreamSynchronize(void* stream) {
  CALL(131, driver.cuStreamSynchronize(stream));
}
FAKE_EXPORT int cudaDeviceSynchronize(void) { CALL(165, driver.cuCtxSynchronize()); }
FAKE_EXPORT int cudaStreamDestroy(void* stream) { CALL(201, driver.cuStreamDestroy_v2(stream)); }
FAKE_EXPORT int cudaStreamBeginCapture(void* stream, int mode) {
  CALL(315, driver.cuStreamBeginCapture_v2(stream, mode));
}
FAKE_EXPORT int cudaStreamEndCapture(void* stream, void** graph) {
  CALL(319, driver.cuStreamEndCapture(stream, graph));
}
FAKE_EXPORT int cudaGraphInstantiateWithFlags(void** executable, void* graph, uint64_t flags) {
  CALL(418, driver.cuGraphInstantiateWithFlags(executable, graph, flags));
}
FAKE_EXPORT int cudaGraphLaunch(void* executable, void* stream) {
  CALL(311, driver.cuGraphLaunch(executable, stream));
}

// The driver's function behind a host function, made when it is asked for first.
static int kernel_of(const void* host_function, void** found) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const void* hosts[MAX_KERNELS];
  static void* functions[MAX_KERNELS];
  int result = 1;
  pthread_mutex_lock(&lock);
  for (int index = 0; index < MAX_KERNELS; ++index) {
    if (hosts[index] == NULL) {
      result = driver.cuModuleGetFunction(&functions[index], NULL, host_function);
      if (result != 0) break;
      hosts[index] = host_function;
    }
    if (hosts[index] != host_function) continue;
    *found = functions[index];
    result = 0;
    break;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static int launch(const void* host_function, struct dim3 grid, struct dim3 block, void** arguments,
                  size_t shared_bytes, void* stream) {
  void* function = NULL;
  const int result = kernel_of(host_function, &function);
  if (result != 0) return result;
  return driver.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                               (unsigned)shared_bytes, stream, arguments, NULL);
}

FAKE_EXPORT int cudaLaunchKernel(const void* host_function, struct dim3 grid, struct dim3 block,
                                 void** arguments, size_t shared_bytes, void* stream) {
  CALL(211, launch(host_function, grid, block, arguments, shared_bytes, stream));
}
