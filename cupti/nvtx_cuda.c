// NVTX's names of CUDA's devices, contexts and streams. Those of the runtime have the handles of
// the driver. Names of events are not kept: nothing of ours tells of an event.
#include "nvtx_cuda.h"

#include "cupti_given.h"
#include "names.h"

#define NARROWED_BYTES (RLS_SHIM_MAX_TEXT + 5)

static void name_device_a(int device, const char* name) {
  if (name != NULL && device >= 0) rls_cupti_name_device((uint32_t)device, name);
}

static void name_device_w(int device, const wchar_t* name) {
  char text[NARROWED_BYTES];
  if (name == NULL) return;
  rls_narrow(name, text, sizeof(text));
  name_device_a(device, text);
}

static void name_context_a(void* context, const char* name) {
  if (name != NULL) rls_cupti_name_context(context, name);
}

static void name_context_w(void* context, const wchar_t* name) {
  char text[NARROWED_BYTES];
  if (name == NULL) return;
  rls_narrow(name, text, sizeof(text));
  name_context_a(context, text);
}

static void name_stream_a(void* stream, const char* name) {
  if (name != NULL) rls_cupti_name_stream(stream, name);
}

static void name_stream_w(void* stream, const wchar_t* name) {
  char text[NARROWED_BYTES];
  if (name == NULL) return;
  rls_narrow(name, text, sizeof(text));
  name_stream_a(stream, text);
}

static const nvtx_function kDriver[NVTX_CUDA_SIZE] = {
    [NVTX_NAME_CU_DEVICE_A] = (nvtx_function)name_device_a,
    [NVTX_NAME_CU_DEVICE_W] = (nvtx_function)name_device_w,
    [NVTX_NAME_CU_CONTEXT_A] = (nvtx_function)name_context_a,
    [NVTX_NAME_CU_CONTEXT_W] = (nvtx_function)name_context_w,
    [NVTX_NAME_CU_STREAM_A] = (nvtx_function)name_stream_a,
    [NVTX_NAME_CU_STREAM_W] = (nvtx_function)name_stream_w,
};

static const nvtx_function kRuntime[NVTX_CUDART_SIZE] = {
    [NVTX_NAME_CUDA_DEVICE_A] = (nvtx_function)name_device_a,
    [NVTX_NAME_CUDA_DEVICE_W] = (nvtx_function)name_device_w,
    [NVTX_NAME_CUDA_STREAM_A] = (nvtx_function)name_stream_a,
    [NVTX_NAME_CUDA_STREAM_W] = (nvtx_function)name_stream_w,
};

nvtx_function rls_nvtx_cuda_handler(unsigned module, unsigned id) {
  if (module == NVTX_MODULE_CUDA && id < NVTX_CUDA_SIZE) return kDriver[id];
  if (module == NVTX_MODULE_CUDART && id < NVTX_CUDART_SIZE) return kRuntime[id];
  return NULL;
}
