// The calls of the CUDA runtime and driver that are recorded.
//
// A program makes many calls that neither give the GPU work nor wait for it (cudaGetDevice,
// cudaGetLastError), and each would cost a record. Where CUPTI lets us choose (CUDA 12.8 and newer)
// the others are enabled one by one, else what is not wanted is dropped here, so that a trace holds
// the same calls whatever the version. They are told apart by name: numbers differ between
// versions. Once a program has a context, calls that are enabled one by one are not recorded, and
// CUPTI says that all is well (seen with 13.0.85 on driver 580): then it is all of them.
#include "cupti_calls.h"

#include <stdio.h>
#include <string.h>

#include "cupti_status.h"
#include "names.h"
#include "shim.h"

#define MAX_FUNCTIONS 2048

struct call {
  uint64_t name;  // hash; 0: not looked up
  const char* text;
  uint32_t length;
  uint8_t looked_up;
  uint8_t wanted;
};

static struct call calls[2][MAX_FUNCTIONS];
static bool is_cut[2];  // whether CUPTI was told which calls to record

// Beginnings of names. Behind them may come _ptsz, _v2, Async, ...
static const char* const kRuntime[] = {
    "cudaLaunch",
    "__cudaLaunchKernel",
    "cudaMemcpy",
    "cudaMemset",
    "cudaMalloc",
    "cudaFree",
    "cudaHostAlloc",
    "cudaHostRegister",
    "cudaHostUnregister",
    "cudaMemPrefetch",
    "cudaMemPoolTrimTo",
    "cudaDeviceSynchronize",
    "cudaThreadSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cudaGraphLaunch",
    "cudaGraphInstantiate",
    "cudaGraphUpload",
    "cudaGraphExecUpdate",
    "cudaLibraryLoad",
    "cudaInitDevice",
    "cudaDeviceReset",
    "__cudaInitModule",
    NULL,
};
static const char* const kDriver[] = {
    "cuLaunch",
    "cuMemcpy",
    "cuMemset",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemSetAccess",
    "cuMemPrefetch",
    "cuMemPoolTrimTo",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuGraphLaunch",
    "cuGraphInstantiate",
    "cuGraphUpload",
    "cuGraphExecUpdate",
    "cuModuleLoad",
    "cuLibraryLoad",
    "cuLinkComplete",
    "cuFuncLoad",
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxReset",
    NULL,
};

static bool is_wanted(uint32_t domain, const char* name) {
  const char* const* beginning = domain == CUPTI_DOMAIN_RUNTIME ? kRuntime : kDriver;
  for (; *beginning != NULL; ++beginning)
    if (strncmp(name, *beginning, strlen(*beginning)) == 0) return true;
  return false;
}

// CUPTI's names of runtime calls end in the version that brought them: cudaLaunchKernel_v7000. The
// function in the library, and so in every other tool, is cudaLaunchKernel.
static void strip_version(char* name) {
  char* end = strrchr(name, '_');
  if (end == NULL || end[1] != 'v') return;
  const size_t digits = strspn(end + 2, "0123456789");
  if (digits >= 4 && end[2 + digits] == '\0') *end = '\0';
}

static const char* cupti_name(uint32_t domain, uint32_t function) {
  const char* name = NULL;
  if (rls_cupti.functions.get_callback_name == NULL ||
      rls_cupti.functions.get_callback_name(domain, function, &name) != CUPTI_OK)
    return NULL;
  return name;
}

static struct call* look_up(uint32_t domain, uint32_t function) {
  struct call* call = &calls[domain - 1][function];
  if (RLS_LIKELY(call->looked_up)) return call;
  call->looked_up = 1;
  call->wanted = 1;
  const char* name = cupti_name(domain, function);
  if (name == NULL || name[0] == '\0') return call;
  call->wanted = is_wanted(domain, name);
  char plain[RLS_SHIM_MAX_TEXT];
  snprintf(plain, sizeof(plain), "%s", name);
  if (domain == CUPTI_DOMAIN_RUNTIME) strip_version(plain);
  const struct rls_text* text = rls_keep_text(plain);
  if (text == NULL) return call;
  call->name = text->hash;
  call->text = text->text;
  call->length = text->length;
  return call;
}

typedef cupti_result (*enable_call)(uint32_t function, uint8_t enable);

static enable_call enabler(uint32_t domain) {
  return domain == CUPTI_DOMAIN_RUNTIME ? rls_cupti.functions.enable_runtime_call
                                        : rls_cupti.functions.enable_driver_call;
}

// The first refusal, or CUPTI_OK. `switched`: how many there were before it.
static cupti_result switch_each(uint32_t domain, bool on, int* switched) {
  const enable_call enable = enabler(domain);
  *switched = 0;
  for (uint32_t function = 1; enable != NULL && function < MAX_FUNCTIONS; ++function) {
    const char* name = cupti_name(domain, function);
    if (name == NULL || !is_wanted(domain, name)) continue;
    const cupti_result result = enable(function, on);
    if (result != CUPTI_OK) return result;
    ++*switched;
  }
  return CUPTI_OK;
}

// Call by call, and where that does not work to the end or comes too late, all of them.
static void enable_domain(uint32_t domain, uint32_t kind) {
  const bool is_runtime = domain == CUPTI_DOMAIN_RUNTIME;
  int switched = 0;
  cupti_result result = rls_cupti.is_late ? CUPTI_OK : switch_each(domain, true, &switched);
  is_cut[domain - 1] = result == CUPTI_OK && switched > 0;
  if (result != CUPTI_OK) {
    rls_cupti_failed_in_part(
        is_runtime ? "cuptiActivityEnableRuntimeApi" : "cuptiActivityEnableDriverApi", result);
  }
  if (!is_cut[domain - 1]) result = rls_cupti.functions.enable(kind);
  if (result == CUPTI_OK) {
    rls_cupti.recorded |= 1ULL << kind;
    return;
  }
  rls_cupti.refused |= 1ULL << kind;
  rls_cupti_failed_in_part(
      is_runtime ? "cuptiActivityEnable(RUNTIME)" : "cuptiActivityEnable(DRIVER)", result);
}

// Without names, calls are numbers.
static void check_names(void) {
  const char* name = NULL;
  cupti_result result = CUPTI_OK;
  if (rls_cupti.functions.get_callback_name == NULL) return;
  for (uint32_t function = 1; function < MAX_FUNCTIONS && name == NULL; ++function)
    result = rls_cupti.functions.get_callback_name(CUPTI_DOMAIN_DRIVER, function, &name);
  if (name == NULL) rls_cupti_failed_in_part("cuptiGetCallbackName", result);
}

void rls_cupti_enable_calls(void) {
  memset(calls, 0, sizeof(calls));
  check_names();
  enable_domain(CUPTI_DOMAIN_RUNTIME, CUPTI_KIND_RUNTIME);
  enable_domain(CUPTI_DOMAIN_DRIVER, CUPTI_KIND_DRIVER);
}

static void switch_domain(uint32_t domain, uint32_t kind, bool on) {
  if ((rls_cupti.recorded & (1ULL << kind)) == 0) return;
  if (on) {
    // There may be a context by now.
    is_cut[domain - 1] = false;
    rls_cupti.functions.enable(kind);
  } else if (is_cut[domain - 1]) {
    int switched;
    switch_each(domain, false, &switched);
  } else if (rls_cupti.functions.disable != NULL) {
    rls_cupti.functions.disable(kind);
  }
}

void rls_cupti_switch_calls(bool on) {
  switch_domain(CUPTI_DOMAIN_RUNTIME, CUPTI_KIND_RUNTIME, on);
  switch_domain(CUPTI_DOMAIN_DRIVER, CUPTI_KIND_DRIVER, on);
}

bool rls_cupti_call_name(struct rls_shim_slot* slot, uint32_t kind, uint32_t function,
                         uint64_t* name) {
  *name = 0;
  if (function >= MAX_FUNCTIONS) return true;
  const struct call* call =
      look_up(kind == CUPTI_KIND_RUNTIME ? CUPTI_DOMAIN_RUNTIME : CUPTI_DOMAIN_DRIVER, function);
  if (!call->wanted) return false;
  if (call->name != 0) rls_tell_name(slot, call->name, call->text, call->length);
  *name = call->name;
  return true;
}
