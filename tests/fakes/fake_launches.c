// The fake driver: kernels, copies and graphs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

#define KERNEL_NS 5000

// "gemm_20us" takes 20 us; a name that says nothing KERNEL_NS. "fault..." breaks the context.
static uint64_t duration_from(const char* name) {
  const char* number = strrchr(name, '_');
  if (number == NULL) return KERNEL_NS;
  char* unit = NULL;
  const uint64_t value = strtoull(number + 1, &unit, 10);
  if (unit == number + 1) return KERNEL_NS;
  if (strcmp(unit, "ns") == 0) return value;
  if (strcmp(unit, "us") == 0) return value * 1000;
  return strcmp(unit, "ms") == 0 ? value * 1000000 : KERNEL_NS;
}

FAKE_EXPORT int cuModuleLoadData(void** module, const void* image) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 19);
  *module = (void*)(uintptr_t)image;
  return fakecuda_leave(&call, fake_state());
}

// Functions live as long as the process: records keep pointers to their names.
FAKE_EXPORT int cuModuleGetFunction(struct fake_function** function, void* module,
                                    const char* name) {
  (void)module;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 23);
  const int result = fake_state();
  if (result == FAKE_SUCCESS) {
    struct fake_function* made = calloc(1, sizeof *made);
    if (made == NULL) abort();
    snprintf(made->name, sizeof made->name, "%s", name);
    made->takes_ns = duration_from(name);
    made->faults = strncmp(name, "fault", 5) == 0;
    *function = made;
  }
  return fakecuda_leave(&call, result);
}

// The first launch of a function loads it, which CUPTI tells as overhead (5: lazy loading).
static void load(struct fake_function* function, uint64_t start_ns) {
  if (__atomic_exchange_n(&function->is_loaded, true, __ATOMIC_RELAXED)) return;
  const struct fake_event event = {
      .kind = FAKE_OVERHEAD,
      .detail = 5,
      .start_ns = start_ns,
      .end_ns = fake_clock(CLOCK_MONOTONIC) + 1,
      .correlation = fake_correlation(),
  };
  fake_tell(&event);
}

FAKE_EXPORT int cuLaunchKernel(struct fake_function* function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared_bytes, struct fake_stream* handle,
                               void** parameters, void** extra) {
  (void)shared_bytes, (void)parameters, (void)extra;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 307);
  struct fake_stream* stream = fake_stream_of(handle);
  int result = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z)
    result = FAKE_INVALID_VALUE;
  if (result == FAKE_SUCCESS) {
    load(function, fake_clock(CLOCK_MONOTONIC));
    struct fake_event work = {.kind = FAKE_KERNEL, .name = function->name};
    result = fake_enqueue(stream, &work, function->takes_ns);
    if (function->faults) fake_fault = FAKE_ILLEGAL_ADDRESS;
  }
  return fakecuda_leave(&call, result);
}

// 1 ns for 4 bytes, and a little for each copy: the CPU, which copies them too, is faster.
static int copy(struct fake_stream* handle, uint32_t direction, void* to, const void* from,
                size_t bytes) {
  struct fake_stream* stream = fake_stream_of(handle);
  const int state = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (state != FAKE_SUCCESS) return state;
  memcpy(to, from, bytes);
  struct fake_event work = {.kind = FAKE_MEMCPY, .detail = direction, .bytes = bytes};
  return fake_enqueue(stream, &work, 1000 + bytes / 4);
}

FAKE_EXPORT int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes,
                                     struct fake_stream* stream) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 277);
  return fakecuda_leave(&call, copy(stream, 1, to, from, bytes));
}

FAKE_EXPORT int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes,
                                     struct fake_stream* stream) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 279);
  return fakecuda_leave(&call, copy(stream, 2, to, from, bytes));
}

FAKE_EXPORT int cuMemcpyPeerAsync(void* to, const struct fake_context* there, const void* from,
                                  const struct fake_context* here, size_t bytes,
                                  struct fake_stream* handle) {
  (void)here;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 319);
  struct fake_stream* stream = fake_stream_of(handle);
  int result = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS) {
    memcpy(to, from, bytes);
    struct fake_event work = {
        .kind = FAKE_PEER, .detail = 10, .bytes = bytes, .peer_device = there->device};
    result = fake_enqueue(stream, &work, 1000 + bytes / 4);
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuMemsetD8Async(void* to, unsigned char value, size_t bytes,
                                struct fake_stream* handle) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 216);
  struct fake_stream* stream = fake_stream_of(handle);
  int result = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS) {
    memset(to, value, bytes);
    struct fake_event work = {.kind = FAKE_MEMSET, .bytes = bytes};
    result = fake_enqueue(stream, &work, 1000 + bytes / 64);
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuStreamBeginCapture_v2(struct fake_stream* stream, int mode) {
  (void)mode;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 539);
  // The null stream cannot be captured.
  int result = stream == NULL ? FAKE_CAPTURE_UNSUPPORTED : fake_state();
  if (result == FAKE_SUCCESS) {
    struct fake_graph* graph = calloc(1, sizeof *graph);
    if (graph == NULL) abort();
    graph->id = fake_next_id();
    stream->capture = graph;
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuStreamEndCapture(struct fake_stream* stream, struct fake_graph** graph) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 497);
  *graph = stream->capture;
  stream->capture = NULL;
  return fakecuda_leave(&call, *graph == NULL ? FAKE_INVALID_VALUE : fake_state());
}

FAKE_EXPORT int cuGraphInstantiateWithFlags(struct fake_graph** executable,
                                            const struct fake_graph* graph, uint64_t flags) {
  (void)flags;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 643);
  const int result = fake_state();
  if (result == FAKE_SUCCESS) {
    *executable = malloc(sizeof **executable);
    if (*executable == NULL) abort();
    **executable = *graph;
  }
  return fakecuda_leave(&call, result);
}

// Each node happens, and then the graph as a whole; CUPTI tells the one or the other.
static void run_graph(const struct fake_graph* graph, struct fake_stream* stream) {
  struct fake_event whole = {.kind = FAKE_GRAPH, .graph = graph->id};
  for (uint32_t index = 0; index < graph->count; ++index) {
    struct fake_event node = graph->nodes[index];
    node.graph = graph->id;
    fake_enqueue(stream, &node, node.end_ns);
    if (index == 0) whole.start_ns = node.start_ns;
    whole.end_ns = node.end_ns;
    whole.device = node.device;
    whole.context = node.context;
    whole.stream = node.stream;
    whole.correlation = node.correlation;
  }
  if (graph->count > 0) fake_tell(&whole);
}

FAKE_EXPORT int cuGraphLaunch(const struct fake_graph* graph, struct fake_stream* handle) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 514);
  struct fake_stream* stream = fake_stream_of(handle);
  const int result = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS) run_graph(graph, stream);
  return fakecuda_leave(&call, result);
}
