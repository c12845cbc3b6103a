// Gives names to what CUDA has, by NVTX: each kind by the functions of the driver and the runtime.
#ifndef CUDA_NAMES_H
#define CUDA_NAMES_H

#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <stdbool.h>
#include <stdio.h>

// "GPU 0", and of the driver's context "main".
static void name_device(bool is_runtime, int device, void* context) {
  char name[32];
  snprintf(name, sizeof name, "GPU %d", device);
  if (is_runtime) {
    nvtxNameCudaDeviceA(device, name);
    return;
  }
  nvtxNameCuDeviceA(device, name);
  nvtxNameCuContextA(context, "main");
}

// "draft", and then "compute": the last name is what it is called. The null stream is "default".
static void name_stream(bool is_runtime, void* stream) {
  if (is_runtime) {
    nvtxNameCudaStreamA(stream, "draft");
    nvtxNameCudaStreamW(stream, L"compute");
    nvtxNameCudaStreamA(NULL, "default");
    return;
  }
  nvtxNameCuStreamA(stream, "draft");
  nvtxNameCuStreamW(stream, L"compute");
  nvtxNameCuStreamA(NULL, "default");
}

#endif  // CUDA_NAMES_H
