// What is known of the GPUs, contexts and streams of this process.
//
// The driver is asked from the flush thread once there is GPU work: while it starts, which is when
// InitializeInjection is called, it must not be.
#include "cupti_devices.h"

#include <stdio.h>

#include "cupti_library.h"
#include "cupti_status.h"
#include "ring.h"

#define MAX_DEVICES 64
#define MAX_CONTEXTS 512
#define MAX_STREAMS 512

typedef uint32_t (*device_get_count)(int* count);
typedef uint32_t (*device_get)(int* device, int ordinal);
typedef uint32_t (*device_get_name)(char* name, int bytes, int device);
typedef uint32_t (*device_get_uuid)(uint8_t* uuid, int device);
typedef uint32_t (*device_get_memory)(size_t* bytes, int device);
typedef uint32_t (*device_get_attribute)(int* value, int attribute, int device);

struct named {
  uint32_t context;
  uint32_t device;
  uint32_t stream;
  bool is_stream;
};

// Apart, so that streams cannot crowd out the contexts, which say what device they are of. The
// oldest context makes room.
static struct named contexts[MAX_CONTEXTS];
static uint32_t context_count;  // ever
static struct named streams[MAX_STREAMS];
static uint32_t stream_count;

static uint32_t kept_contexts(void) {
  return context_count < MAX_CONTEXTS ? context_count : MAX_CONTEXTS;
}

static int attribute_of(int device, int attribute) {
  const device_get_attribute get = (device_get_attribute)rls_cuda_function("cuDeviceGetAttribute");
  int value = 0;
  return get != NULL && get(&value, attribute, device) == CUDA_OK && value > 0 ? value : 0;
}

// The second version of the function gives the id of the MIG instance, where the device is one.
static void set_uuid(struct rls_shim_gpu_device* record, int device) {
  const device_get_uuid of_gpu = (device_get_uuid)rls_cuda_function("cuDeviceGetUuid");
  const device_get_uuid of_instance = (device_get_uuid)rls_cuda_function("cuDeviceGetUuid_v2");
  uint8_t gpu[16] = {0};
  uint8_t instance[16] = {0};
  const bool has_gpu = of_gpu != NULL && of_gpu(gpu, device) == CUDA_OK;
  const bool has_instance = of_instance != NULL && of_instance(instance, device) == CUDA_OK;
  if (has_instance) {
    memcpy(record->uuid, instance, sizeof(instance));
  } else if (has_gpu) {
    memcpy(record->uuid, gpu, sizeof(gpu));
  }
  if (has_gpu && has_instance) record->is_mig = memcmp(gpu, instance, sizeof(gpu)) != 0;
}

static void tell_device(struct rls_shim_slot* slot, int ordinal) {
  const device_get get = (device_get)rls_cuda_function("cuDeviceGet");
  const device_get_name get_name = (device_get_name)rls_cuda_function("cuDeviceGetName");
  const device_get_memory get_memory = (device_get_memory)rls_cuda_function("cuDeviceTotalMem_v2");
  int device = ordinal;
  if (get == NULL || get(&device, ordinal) != CUDA_OK) return;
  struct rls_shim_gpu_device record = {.kind = RLS_SHIM_GPU_DEVICE, .device = (uint32_t)ordinal};
  char name[256] = {0};
  if (get_name != NULL && get_name(name, (int)sizeof(name) - 1, device) == CUDA_OK)
    rls_cupti_tell_text(slot, &record.name, name);
  if (strstr(name, " MIG ") != NULL) record.is_mig = 1;
  size_t memory = 0;
  if (get_memory != NULL && get_memory(&memory, device) == CUDA_OK) record.memory_bytes = memory;
  record.major = (uint8_t)attribute_of(device, CUDA_ATTRIBUTE_MAJOR);
  record.minor = (uint8_t)attribute_of(device, CUDA_ATTRIBUTE_MINOR);
  record.multiprocessors = (uint32_t)attribute_of(device, CUDA_ATTRIBUTE_MULTIPROCESSORS);
  record.clock_khz = (uint32_t)attribute_of(device, CUDA_ATTRIBUTE_CLOCK_KHZ);
  record.memory_clock_khz = (uint32_t)attribute_of(device, CUDA_ATTRIBUTE_MEMORY_CLOCK_KHZ);
  record.memory_bus_bits = (uint32_t)attribute_of(device, CUDA_ATTRIBUTE_MEMORY_BUS_BITS);
  set_uuid(&record, device);
  rls_append(slot, &record);
}

bool rls_cupti_tell_devices(struct rls_shim_slot* slot) {
  const device_get_count get_count = (device_get_count)rls_cuda_function("cuDeviceGetCount");
  int count = 0;
  if (get_count == NULL) return true;
  if (get_count(&count) != CUDA_OK) return false;
  for (int ordinal = 0; ordinal < count && ordinal < MAX_DEVICES; ++ordinal)
    tell_device(slot, ordinal);
  return true;
}

uint32_t rls_cupti_device_of(uint32_t context) {
  const uint32_t kept = kept_contexts();
  for (uint32_t i = 0; i < kept; ++i)
    if (contexts[i].context == context) return contexts[i].device;
  return RLS_UNKNOWN_ID;
}

static void tell_named(struct rls_shim_slot* slot, const struct named* entry) {
  const struct rls_shim_gpu_named record = {
      .kind = RLS_SHIM_GPU_NAMED,
      .is_stream = entry->is_stream,
      .device = entry->device,
      .context = entry->context,
      .stream = entry->stream,
  };
  rls_append(slot, &record);
}

// CUPTI tells of a stream with every context, and of what there was before a late start: once is
// enough. Streams that there is no room for are reported, and forgotten.
void rls_cupti_note_context(struct rls_shim_slot* slot, uint32_t context, uint32_t device) {
  const struct named entry = {.context = context, .device = device};
  if (rls_cupti_device_of(context) == device) return;
  contexts[context_count++ % MAX_CONTEXTS] = entry;
  tell_named(slot, &entry);
}

void rls_cupti_note_stream(struct rls_shim_slot* slot, uint32_t context, uint32_t stream) {
  const uint32_t device = rls_cupti_device_of(context);
  const struct named entry = {
      .context = context, .device = device, .stream = stream, .is_stream = true};
  for (uint32_t i = 0; i < stream_count; ++i) {
    struct named* known = &streams[i];
    if (known->context != context || known->stream != stream) continue;
    if (known->device == device) return;
    *known = entry;
    tell_named(slot, &entry);
    return;
  }
  if (stream_count < MAX_STREAMS) streams[stream_count++] = entry;
  tell_named(slot, &entry);
}

void rls_cupti_tell_named(struct rls_shim_slot* slot) {
  const uint32_t kept = kept_contexts();
  for (uint32_t i = 0; i < kept; ++i) tell_named(slot, &contexts[i]);
  for (uint32_t i = 0; i < stream_count; ++i) tell_named(slot, &streams[i]);
}
