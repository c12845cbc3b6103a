// CUPTI's records, byte by byte, as eight releases from 11.8 to 13.4 lay them out.
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "fake_cupti.h"

// From which version on a record has a size.
struct step {
  uint32_t kind;
  uint32_t since;
  size_t bytes;
};

// 18: 11.8, 22: 12.4, 26: 12.8, 28: 12.9.
static const struct step steps[] = {
    {FAKE_MEMCPY, 0, 88},
    {FAKE_MEMCPY, 26, 96},
    {FAKE_MEMCPY, 130401, 112},
    {FAKE_MEMSET, 0, 88},
    {FAKE_MEMSET, 130401, 104},
    {3, 0, 200},
    {3, 22, 208},
    {3, 130001, 216},
    {3, 130401, 248},
    {FAKE_DRIVER_CALL, 0, 40},
    {FAKE_RUNTIME_CALL, 0, 40},
    {8, 0, 176},
    {8, 22, 184},
    {8, 130401, 192},
    {FAKE_CONTEXT, 0, 16},
    {FAKE_CONTEXT, 22, 24},
    {FAKE_CONTEXT, 26, 32},
    {FAKE_CONTEXT, 130401, 40},
    {FAKE_KERNEL, 0, 200},
    {FAKE_KERNEL, 22, 208},
    {FAKE_KERNEL, 130001, 216},
    {FAKE_KERNEL, 130401, 248},
    {11, 0, 32},
    {FAKE_OVERHEAD, 0, 40},
    {FAKE_OVERHEAD, 22, 56},
    {FAKE_PEER, 0, 96},
    {FAKE_STREAM, 0, 24},
    {FAKE_SYNC, 0, 40},
    {FAKE_SYNC, 26, 56},
    {39, 0, 24},
    {FAKE_MEMORY, 0, 120},
    {FAKE_MEMORY, 26, 128},
    {FAKE_GRAPH, 0, 48},
    {FAKE_GRAPH, 22, 56},
};

size_t fake_record_size(uint32_t api, uint32_t kind) {
  size_t bytes = 0;
  for (size_t index = 0; index < sizeof steps / sizeof steps[0]; ++index)
    if (steps[index].kind == kind && steps[index].since <= api) bytes = steps[index].bytes;
  return bytes;
}

size_t fake_name_offset(uint32_t kind) {
  if (kind == 3 || kind == FAKE_KERNEL) return 104;
  if (kind == 8) return 136;
  if (kind == 11) return 24;
  return kind == FAKE_MEMORY ? 64 : 0;
}

static void put8(uint8_t* to, size_t offset, uint32_t value) { to[offset] = (uint8_t)value; }

static void put32(uint8_t* to, size_t offset, uint64_t value) {
  const uint32_t narrow = (uint32_t)value;
  memcpy(to + offset, &narrow, sizeof narrow);
}

static void put64(uint8_t* to, size_t offset, uint64_t value) {
  memcpy(to + offset, &value, sizeof value);
}

static void write_call(const struct fake_event* event, uint64_t tid, uint8_t* to) {
  put32(to, 4, event->function);
  put64(to, 8, event->start_ns);
  put64(to, 16, event->end_ns);
  put32(to, 24, (uint64_t)getpid());
  put32(to, 28, tid);
  put32(to, 32, event->correlation);
  put32(to, 36, event->result);
}

static void write_kernel(uint32_t api, const struct fake_event* event, uint8_t* to) {
  put64(to, 16, event->start_ns);
  put64(to, 24, event->end_ns);
  put64(to, 32, event->end_ns);
  put32(to, 40, event->device);
  put32(to, 44, event->context);
  put32(to, 48, event->stream);
  for (size_t offset = 52; offset < 76; offset += 4) put32(to, offset, 1);  // grid and block
  put32(to, 92, event->correlation);
  put64(to, 96, event->correlation);
  put64(to, 104, (uint64_t)(uintptr_t)event->name);
  put64(to, 144, event->node);
  put32(to, 156, event->graph);
  put32(to, 168, 1);
  // Where 13.0 has isDeviceLaunched, earlier ones have nothing or padding.
  if (api >= 130401) put32(to, 216, 0);
}

static void write_copy(const struct fake_event* event, uint8_t* to) {
  const bool is_set = event->kind == FAKE_MEMSET;
  if (!is_set) {
    put8(to, 4, event->detail);
    put8(to, 5, event->detail == 1 ? 1 : 3);
    put8(to, 6, event->detail == 2 ? 1 : 3);
    put8(to, 7, 1);  // asynchronous
  }
  put64(to, 8, event->bytes);
  put64(to, 16, event->start_ns);
  put64(to, 24, event->end_ns);
  put32(to, 32, event->device);
  put32(to, 36, event->context);
  put32(to, 40, event->stream);
  put32(to, 44, event->correlation);
  if (is_set) put32(to, 48, 1U | 3U << 16);
  if (!is_set) put32(to, 48, event->correlation);
  put64(to, 64, event->node);
  put32(to, 72, event->graph);
}

static void write_peer(const struct fake_event* event, uint8_t* to) {
  put8(to, 4, event->detail);
  put64(to, 8, event->bytes);
  put64(to, 16, event->start_ns);
  put64(to, 24, event->end_ns);
  put32(to, 32, event->device);
  put32(to, 36, event->context);
  put32(to, 40, event->stream);
  put32(to, 44, event->device);
  put32(to, 48, event->context);
  put32(to, 52, event->peer_device);
  put32(to, 60, event->correlation);
  put64(to, 72, event->node);
  put32(to, 80, event->graph);
}

static void write_sync(const struct fake_event* event, uint8_t* to) {
  put32(to, 4, event->detail);
  put64(to, 8, event->start_ns);
  put64(to, 16, event->end_ns);
  put32(to, 24, event->correlation);
  put32(to, 28, event->context);
  put32(to, 32, event->stream);
}

static void write_overhead(const struct fake_event* event, uint64_t tid, uint8_t* to) {
  put32(to, 4, event->detail << 16);
  put32(to, 8, 2);  // of a thread
  put32(to, 12, (uint64_t)getpid());
  put32(to, 16, tid);
  put64(to, 24, event->start_ns);
  put64(to, 32, event->end_ns);
}

static void write_graph(uint32_t api, const struct fake_event* event, uint8_t* to) {
  put32(to, 4, event->correlation);
  put64(to, 8, event->start_ns);
  put64(to, 16, event->end_ns);
  put32(to, 24, event->device);
  put32(to, 28, event->graph);
  put32(to, 32, event->context);
  put32(to, 36, event->stream);
  if (api < 22) return;
  put32(to, 48, event->device);
  put32(to, 52, event->context);
}

static void write_memory(const struct fake_event* event, uint8_t* to) {
  put32(to, 4, event->detail);
  put32(to, 8, 3);  // of the device
  put32(to, 12, event->correlation);
  put64(to, 16, event->address);
  put64(to, 24, event->bytes);
  put64(to, 32, event->start_ns);
  put32(to, 48, (uint64_t)getpid());
  put32(to, 52, event->device);
  put32(to, 56, event->context);
  put32(to, 60, UINT32_MAX);
}

// A context, or a stream.
static void write_object(const struct fake_event* event, uint8_t* to) {
  put32(to, 4, event->context);
  if (event->kind == FAKE_CONTEXT) {
    put32(to, 8, event->device);
    put32(to, 12, 1);  // CUDA
    return;
  }
  put32(to, 8, event->stream);
  put32(to, 16, event->detail);
  put32(to, 20, event->correlation);
}

size_t fake_write_record(uint32_t api, const struct fake_event* event, uint64_t tid, uint8_t* to) {
  const size_t bytes = fake_record_size(api, event->kind);
  memset(to, 0, bytes);
  put32(to, 0, event->kind);
  switch (event->kind) {
    case FAKE_DRIVER_CALL:
    case FAKE_RUNTIME_CALL:
      write_call(event, tid, to);
      break;
    case 3:
    case FAKE_KERNEL:
      write_kernel(api, event, to);
      break;
    case FAKE_MEMCPY:
    case FAKE_MEMSET:
      write_copy(event, to);
      break;
    case FAKE_PEER:
      write_peer(event, to);
      break;
    case FAKE_SYNC:
      write_sync(event, to);
      break;
    case FAKE_OVERHEAD:
      write_overhead(event, tid, to);
      break;
    case FAKE_GRAPH:
      write_graph(api, event, to);
      break;
    case FAKE_MEMORY:
      write_memory(event, to);
      break;
    case FAKE_CONTEXT:
    case FAKE_STREAM:
      write_object(event, to);
      break;
    default:
      return 0;
  }
  return bytes;
}
