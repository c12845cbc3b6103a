// The functions of the CUDA driver and runtime that cuda_calls.c calls, in declarations of our own.
#ifndef CUDA_FUNCTIONS_H
#define CUDA_FUNCTIONS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct dim3 {
  unsigned x, y, z;
};

static struct {
  int (*cuInit)(unsigned);
  int (*cuDeviceGetCount)(int*);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuCtxCreate_v2)(void**, unsigned, int);
  int (*cuCtxDestroy_v2)(void*);
  int (*cuCtxSetCurrent)(void*);
  int (*cuCtxSynchronize)(void);
  int (*cuMemcpyPeerAsync)(void*, void*, const void*, void*, size_t, void*);
  int (*cuModuleGetFunction)(void**, void*, const char*);
  int (*cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        void*, void**, void**);
  int (*cuMemcpyHtoDAsync_v2)(void*, const void*, size_t, void*);
  int (*cuMemcpyDtoHAsync_v2)(void*, const void*, size_t, void*);
  int (*cuMemsetD8Async)(void*, unsigned char, size_t, void*);
  int (*cuMemAlloc_v2)(void**, size_t);
  int (*cuMemFree_v2)(void*);
  int (*cuStreamCreate)(void**, unsigned);
  int (*cuStreamSynchronize)(void*);
  int (*cuStreamBeginCapture_v2)(void*, int);
  int (*cuStreamEndCapture)(void*, void**);
  int (*cuGraphInstantiateWithFlags)(void**, void*, unsigned long);
  int (*cuGraphLaunch)(void*, void*);
  const char* (*fakecuda_truth)(void);
  int (*cudaSetDevice)(int);
  int (*cudaMalloc)(void**, size_t);
  int (*cudaFree)(void*);
  int (*cudaMemcpyAsync)(void*, const void*, size_t, int, void*);
  int (*cudaMemsetAsync)(void*, int, size_t, void*);
  int (*cudaStreamCreate)(void**);
  int (*cudaStreamSynchronize)(void*);
  int (*cudaStreamBeginCapture)(void*, int);
  int (*cudaStreamEndCapture)(void*, void**);
  int (*cudaGraphInstantiateWithFlags)(void**, void*, unsigned long);
  int (*cudaGraphLaunch)(void*, void*);
  int (*cudaDeviceSynchronize)(void);
  int (*cudaLaunchKernel)(const void*, struct dim3, struct dim3, void**, size_t, void*);
} cuda;

// RLSCOPE_TEST_CUDART: the name of the runtime.
static void load(bool is_runtime) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const char* name = getenv("RLSCOPE_TEST_CUDART");
  void* runtime = is_runtime && name != NULL ? dlopen(name, RTLD_NOW) : NULL;
  if (driver == NULL || (is_runtime && runtime == NULL)) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define LOAD(name) *(void**)&cuda.name = dlsym(driver, #name)
  LOAD(cuInit), LOAD(cuDeviceGetCount), LOAD(cuDevicePrimaryCtxRetain), LOAD(cuCtxCreate_v2);
  LOAD(cuCtxDestroy_v2), LOAD(cuCtxSetCurrent), LOAD(cuCtxSynchronize), LOAD(cuMemcpyPeerAsync);
  LOAD(cuModuleGetFunction), LOAD(cuLaunchKernel), LOAD(cuMemcpyHtoDAsync_v2);
  LOAD(cuMemcpyDtoHAsync_v2), LOAD(cuMemsetD8Async), LOAD(cuMemAlloc_v2), LOAD(cuMemFree_v2);
  LOAD(cuStreamCreate), LOAD(cuStreamSynchronize), LOAD(cuStreamBeginCapture_v2);
  LOAD(cuStreamEndCapture), LOAD(cuGraphInstantiateWithFlags), LOAD(cuGraphLaunch);
  LOAD(fakecuda_truth);
#undef LOAD
  if (runtime == NULL) return;
#define LOAD(name) *(void**)&cuda.name = dlsym(runtime, #name)
  LOAD(cudaSetDevice), LOAD(cudaMalloc), LOAD(cudaFree), LOAD(cudaMemcpyAsync);
  LOAD(cudaMemsetAsync), LOAD(cudaStreamCreate), LOAD(cudaStreamSynchronize);
  LOAD(cudaStreamBeginCapture), LOAD(cudaStreamEndCapture), LOAD(cudaGraphInstantiateWithFlags);
  LOAD(cudaGraphLaunch), LOAD(cudaDeviceSynchronize), LOAD(cudaLaunchKernel);
#undef LOAD
}

#endif  // CUDA_FUNCTIONS_H
