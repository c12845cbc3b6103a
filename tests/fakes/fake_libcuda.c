// A CUDA driver without a GPU (libcuda.so.1), for tests: start, devices, contexts, memory.
//
// It is a driver as far as programs and CUPTI can see: cuInit loads CUDA_INJECTION64_PATH, calls
// have correlation ids, work runs one after the other on its stream in simulated time, waiting for
// it takes that time, copies copy. FAKECUDA_NODEV=1: there is no GPU. FAKECUDA_DEVICES=N.
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

#define MAX_DEVICES 8

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
int fake_fault;

static pid_t owner;
static _Atomic(const struct fake_listener*) listener;
static atomic_uint last_correlation;
static atomic_uint last_id = 1;
static struct fake_context* primary[MAX_DEVICES];
static __thread struct fake_context* current;
static __thread uint32_t correlation;
static __thread uint32_t depth;

static uint32_t number_from(const char* name, uint32_t otherwise) {
  const char* value = getenv(name);
  return value != NULL && value[0] != '\0' ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

uint32_t fake_devices(void) {
  const uint32_t wanted = number_from("FAKECUDA_DEVICES", 1);
  return wanted < MAX_DEVICES ? wanted : MAX_DEVICES;
}

uint32_t fake_next_id(void) { return atomic_fetch_add(&last_id, 1); }
uint32_t fake_correlation(void) { return correlation; }
struct fake_context* fake_current(void) {
  return current;
}

// A forked child has no driver, and after a fault nothing works any more: as with the real one.
int fake_state(void) {
  if (owner == 0 || owner != getpid()) return FAKE_NOT_INITIALIZED;
  return fake_fault;
}

void fakecuda_listen(const struct fake_listener* who) { atomic_store(&listener, who); }

void fake_tell(const struct fake_event* event) {
  fake_count_event(event);
  const struct fake_listener* who = atomic_load(&listener);
  if (who != NULL) who->heard(event);
}

// The outermost call gives its correlation id to all that it calls.
void fakecuda_enter(struct fake_call* call, uint32_t domain, uint32_t function) {
  const struct fake_listener* who = atomic_load(&listener);
  if (depth++ == 0) correlation = atomic_fetch_add(&last_correlation, 1) + 1;
  call->domain = domain;
  call->function = function;
  call->start_ns = who != NULL ? who->now() : 0;
}

int fakecuda_leave(const struct fake_call* call, int result) {
  const struct fake_listener* who = atomic_load(&listener);
  fake_count_call(call);
  if (who != NULL && call->start_ns != 0) {
    const struct fake_event event = {
        .kind = call->domain == FAKE_RUNTIME ? FAKE_RUNTIME_CALL : FAKE_DRIVER_CALL,
        .start_ns = call->start_ns,
        .end_ns = who->now(),
        .correlation = correlation,
        .function = call->function,
        .result = (uint32_t)result,
    };
    who->heard(&event);
  }
  --depth;
  return result;
}

// While cuInit has the injected library start.
static _Thread_local bool is_injecting;

int fakecuda_is_injecting(void) { return is_injecting; }

// The driver loads this once in cuInit, when it can be called itself.
static void inject(void) {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == NULL || path[0] == '\0') return;
  void* library = dlopen(path, RTLD_NOW);
  if (library == NULL) return;
  int (*start)(void);
  *(void**)&start = dlsym(library, "InitializeInjection");
  if (start != NULL) start();
}

FAKE_EXPORT int cuInit(unsigned flags) {
  (void)flags;
  if (number_from("FAKECUDA_NODEV", 0)) return FAKE_NO_DEVICE;
  pthread_mutex_lock(&fake_lock);
  const bool is_first = owner == 0;
  if (is_first) owner = getpid();
  pthread_mutex_unlock(&fake_lock);
  is_injecting = is_first;
  if (is_first) inject();
  is_injecting = false;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 1);
  return fakecuda_leave(&call, fake_state());
}

FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = (int)number_from("FAKECUDA_DRIVER", 13000);
  return FAKE_SUCCESS;
}

FAKE_EXPORT int cuDeviceGetCount(int* count) {
  *count = (int)fake_devices();
  return fake_state();
}

FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < (int)fake_devices() ? fake_state() : FAKE_INVALID_DEVICE;
}

FAKE_EXPORT int cuDeviceGetName(char* name, int bytes, int device) {
  snprintf(name, (size_t)bytes, "Fake GPU %d", device);
  return fake_state();
}

FAKE_EXPORT int cuDeviceGetUuid(uint8_t uuid[16], int device) {
  for (int index = 0; index < 16; ++index) uuid[index] = (uint8_t)(16 * device + index);
  return fake_state();
}

// FAKECUDA_MIG=1: what the process sees is an instance, with an identity of its own.
FAKE_EXPORT int cuDeviceGetUuid_v2(uint8_t uuid[16], int device) {
  const int result = cuDeviceGetUuid(uuid, device);
  if (number_from("FAKECUDA_MIG", 0)) uuid[0] = 0xa0;
  return result;
}

FAKE_EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = (size_t)(device + 1) << 30;
  return fake_state();
}

FAKE_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 16:
      *value = 132;
      break;  // multiprocessors
    case 13:
      *value = 1980000;
      break;  // clock, kHz
    case 36:
      *value = 2619000;
      break;  // clock of the memory, kHz
    case 37:
      *value = 5120;
      break;  // its bus, bits
    case 75:
      *value = 9;
      break;  // compute capability
    case 76:
      *value = 0;
      break;
    default:
      *value = 0;
      break;
  }
  return fake_state();
}

static struct fake_context* open_context(uint32_t device) {
  struct fake_context* made = calloc(1, sizeof *made);
  if (made == NULL) abort();
  made->id = fake_next_id();
  made->device = device;
  const struct fake_event event = {.kind = FAKE_CONTEXT, .device = device, .context = made->id};
  fake_tell(&event);
  fake_open_stream(made, &made->null_stream);
  return made;
}

FAKE_EXPORT int cuCtxCreate_v2(struct fake_context** context, unsigned flags, int device) {
  (void)flags;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 235);
  int result = fake_state();
  if (result == FAKE_SUCCESS && device >= (int)fake_devices()) result = FAKE_INVALID_DEVICE;
  if (result == FAKE_SUCCESS) *context = current = open_context((uint32_t)device);
  return fakecuda_leave(&call, result);
}

// Of devices' own contexts, which are those that programs use.
void fakecuda_tell_existing(uint32_t kind) {
  const struct fake_listener* who = atomic_load(&listener);
  for (uint32_t device = 0; device < MAX_DEVICES && who != NULL; ++device) {
    const struct fake_context* context = primary[device];
    if (context == NULL) continue;
    struct fake_event event = {.kind = kind, .device = device, .context = context->id, .detail = 3};
    event.stream = context->null_stream.id;
    who->heard(&event);
    event.detail = 1;
    for (const struct fake_stream* at = context->streams; kind == FAKE_STREAM && at != NULL;
         at = at->next) {
      event.stream = at->id;
      who->heard(&event);
    }
  }
}

FAKE_EXPORT int cuCtxDestroy_v2(struct fake_context* context) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 322);
  const int result = fake_state();
  if (result == FAKE_SUCCESS) {
    fake_wait(&context->null_stream);
    for (struct fake_stream* stream = context->streams; stream != NULL;) {
      struct fake_stream* next = stream->next;
      fake_wait(stream);
      free(stream->capture);
      free(stream);
      stream = next;
    }
    if (current == context) current = NULL;
    free(context);
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuDevicePrimaryCtxRetain(struct fake_context** context, int device) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 386);
  int result = fake_state();
  if (result == FAKE_SUCCESS && device >= (int)fake_devices()) result = FAKE_INVALID_DEVICE;
  if (result == FAKE_SUCCESS) {
    pthread_mutex_lock(&fake_lock);
    if (primary[device] == NULL) primary[device] = open_context((uint32_t)device);
    *context = primary[device];
    pthread_mutex_unlock(&fake_lock);
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuCtxSetCurrent(struct fake_context* context) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 303);
  current = context;
  return fakecuda_leave(&call, fake_state());
}

FAKE_EXPORT int cuCtxGetCurrent(struct fake_context** context) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 304);
  *context = current;
  return fakecuda_leave(&call, fake_state());
}

FAKE_EXPORT int cuCtxGetDevice(int* device) {
  if (current == NULL) return FAKE_INVALID_CONTEXT;
  *device = (int)current->device;
  return fake_state();
}

// Memory of the device is memory of the process: copies can be held to what they copied.
static void tell_memory(uint32_t operation, const void* address, size_t bytes) {
  const struct fake_event event = {
      .kind = FAKE_MEMORY,
      .detail = operation,
      .start_ns = fake_clock(CLOCK_MONOTONIC),
      .bytes = bytes,
      .address = (uint64_t)(uintptr_t)address,
      .device = current->device,
      .context = current->id,
      .correlation = correlation,
  };
  fake_tell(&event);
}

FAKE_EXPORT int cuMemAlloc_v2(void** address, size_t bytes) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 243);
  int result = fake_state();
  if (result == FAKE_SUCCESS && current == NULL) result = FAKE_INVALID_CONTEXT;
  if (result == FAKE_SUCCESS) {
    size_t* block = malloc(bytes + 2 * sizeof *block);
    if (block == NULL) abort();
    block[0] = bytes;
    *address = block + 2;
    tell_memory(1, *address, bytes);
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuMemFree_v2(void* address) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 245);
  const int result = current == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS && address != NULL) {
    size_t* block = (size_t*)address - 2;
    tell_memory(2, address, block[0]);
    free(block);
  }
  return fakecuda_leave(&call, result);
}
