// The records of a buffer become cells of the ring.
#include "cupti_records.h"

#include <stdlib.h>
#include <time.h>

#include "cupti_calls.h"
#include "cupti_devices.h"
#include "cupti_names.h"
#include "cupti_status.h"
#include "process.h"
#include "ring.h"
#include "shim.h"

// A cell, and the longest name before it.
#define ROOM (2 * RLS_SHIM_CELL_BYTES + RLS_SHIM_MAX_TEXT)
#define WAIT_STEP_NS 500000L
// The reader empties rings every few ms. One that does not come is not waited for again.
#define MAX_WAITS 40

// No machine has run for thirty years, and no clock is set to 2001.
#define REALTIME_FROM_NS 1000000000000000000U

static uint64_t unreadable[CUPTI_KIND_KNOWN];  // [0]: of no known kind
static bool reader_is_behind;

void rls_cupti_make_room(struct rls_shim_slot* slot) {
  if (RLS_LIKELY(rls_has_room(slot, ROOM))) {
    reader_is_behind = false;
    return;
  }
  const struct timespec step = {0, WAIT_STEP_NS};
  for (int waits = 0; waits < MAX_WAITS && !reader_is_behind; ++waits) {
    if (rls_reader() == 0) return;
    nanosleep(&step, NULL);
    if (rls_has_room(slot, ROOM)) return;
  }
  reader_is_behind = true;
}

void rls_cupti_tell_loss(struct rls_shim_slot* slot, uint16_t what, uint32_t kind, uint64_t count) {
  const struct rls_shim_gpu_lost record = {.kind = RLS_SHIM_GPU_LOST,
                                           .what = what,
                                           .activity = kind,
                                           .count = count,
                                           .ts_ns = rls_now_ns()};
  rls_append(slot, &record);
}

// What was under way when somebody came to read, or had waited in CUPTI since the last reader. A
// time is by the wall clock where it is too large for the other.
static bool is_of_before(uint64_t start_ns) {
  if (RLS_LIKELY(rls_cupti.since_ns == 0) || start_ns == 0) return false;
  const bool is_realtime = start_ns >= REALTIME_FROM_NS;
  return start_ns < (is_realtime ? rls_cupti.since_realtime_ns : rls_cupti.since_ns);
}

static void append(struct rls_shim_slot* slot, const void* record, uint64_t start_ns) {
  if (!is_of_before(start_ns)) rls_append(slot, record);
}

static void tell_call(struct rls_shim_slot* slot, const struct cupti_api_call* call) {
  struct rls_shim_gpu_call record = {
      .kind = RLS_SHIM_GPU_CALL,
      .api = (uint16_t)call->kind,
      .tid = rls_cupti.has_thread_ids ? call->thread : 0,
      .start_ns = call->start,
      .end_ns = call->end,
      .correlation = call->correlation,
      .function = call->function,
      .result = call->result,
  };
  if (rls_cupti_call_name(slot, call->kind, call->function, &record.name))
    append(slot, &record, record.start_ns);
}

// What all records of GPU work have, each in a place of its own.
#define OF_WORK(from)                                                                       \
  .device = (from)->device, .start_ns = (from)->start, .end_ns = (from)->end,               \
  .correlation = (from)->correlation, .context = (from)->context, .stream = (from)->stream, \
  .graph = (from)->graph

static void tell_kernel(struct rls_shim_slot* slot, const struct cupti_kernel* kernel) {
  const struct rls_shim_gpu_activity record = {
      .kind = RLS_SHIM_GPU_ACTIVITY,
      .work = RLS_SHIM_GPU_KERNEL,
      OF_WORK(kernel),
      .name = rls_cupti_kernel_name(slot, kernel->name),
  };
  append(slot, &record, record.start_ns);
}

static void tell_memcpy(struct rls_shim_slot* slot, const struct cupti_memcpy* copy) {
  const struct rls_shim_gpu_activity record = {
      .kind = RLS_SHIM_GPU_ACTIVITY,
      .work = RLS_SHIM_GPU_MEMCPY,
      .detail = copy->copy_kind,
      OF_WORK(copy),
      .bytes = copy->bytes,
      .peer_device = RLS_UNKNOWN_ID,
  };
  append(slot, &record, record.start_ns);
}

static void tell_memcpy_peer(struct rls_shim_slot* slot, const struct cupti_memcpy_peer* copy) {
  const struct rls_shim_gpu_activity record = {
      .kind = RLS_SHIM_GPU_ACTIVITY,
      .work = RLS_SHIM_GPU_MEMCPY,
      .detail = copy->copy_kind,
      OF_WORK(copy),
      .bytes = copy->bytes,
      .peer_device = copy->target_device,
  };
  append(slot, &record, record.start_ns);
}

static void tell_memset(struct rls_shim_slot* slot, const struct cupti_memset* set) {
  const struct rls_shim_gpu_activity record = {
      .kind = RLS_SHIM_GPU_ACTIVITY,
      .work = RLS_SHIM_GPU_MEMSET,
      OF_WORK(set),
      .bytes = set->bytes,
  };
  append(slot, &record, record.start_ns);
}

static void tell_sync(struct rls_shim_slot* slot, const struct cupti_sync* sync) {
  const struct rls_shim_gpu_activity record = {
      .kind = RLS_SHIM_GPU_ACTIVITY,
      .work = RLS_SHIM_GPU_SYNC,
      .detail = (uint8_t)sync->type,
      .device = rls_cupti_device_of(sync->context),
      .start_ns = sync->start,
      .end_ns = sync->end,
      .correlation = sync->correlation,
      .context = sync->context,
      .stream = sync->stream,
  };
  append(slot, &record, record.start_ns);
}

static void tell_graph(struct rls_shim_slot* slot, const struct cupti_graph* graph) {
  const struct rls_shim_gpu_activity record = {
      .kind = RLS_SHIM_GPU_ACTIVITY,
      .work = RLS_SHIM_GPU_GRAPH,
      OF_WORK(graph),
  };
  append(slot, &record, record.start_ns);
}

static void tell_overhead(struct rls_shim_slot* slot, const struct cupti_overhead* overhead,
                          uint64_t bytes) {
  const uint16_t what = (uint16_t)(overhead->what >> 16);
  const bool is_of_thread = overhead->object_kind == CUPTI_OBJECT_THREAD;
  const struct rls_shim_gpu_overhead record = {
      .kind = RLS_SHIM_GPU_OVERHEAD,
      .what = what,
      .tid = is_of_thread && rls_cupti.has_thread_ids ? overhead->object[1] : 0,
      .start_ns = overhead->start,
      .end_ns = overhead->end,
  };
  append(slot, &record, record.start_ns);
  // CUPTI leaves it to the reader of the record.
  if (rls_cupti.version >= CUPTI_API_OVERHEAD_DATA && what == CUPTI_OVERHEAD_COMMAND_BUFFER &&
      bytes >= sizeof(struct cupti_overhead_data)) {
    free(((const struct cupti_overhead_data*)overhead)->data);
  }
}

static void tell_memory(struct rls_shim_slot* slot, const struct cupti_memory* memory) {
  const struct rls_shim_gpu_memory record = {
      .kind = RLS_SHIM_GPU_MEMORY,
      .is_release = memory->operation == CUPTI_MEMORY_RELEASE,
      .memory_kind = (uint8_t)memory->memory_kind,
      .device = memory->device,
      .ts_ns = memory->timestamp,
      .bytes = memory->bytes,
      .address = memory->address,
      .correlation = memory->correlation,
      .context = memory->context,
  };
  append(slot, &record, record.ts_ns);
}

// What has to be there of a record of each kind; 0: a kind that another tool in the process asked
// for, or that tells nothing we keep.
static const uint8_t kBytes[CUPTI_KIND_KNOWN] = {
    [CUPTI_KIND_MEMCPY] = offsetof(struct cupti_memcpy, graph) + 4,
    [CUPTI_KIND_MEMSET] = offsetof(struct cupti_memset, graph) + 4,
    [CUPTI_KIND_KERNEL] = sizeof(struct cupti_kernel),
    [CUPTI_KIND_DRIVER] = sizeof(struct cupti_api_call),
    [CUPTI_KIND_RUNTIME] = sizeof(struct cupti_api_call),
    [CUPTI_KIND_CONTEXT] = sizeof(struct cupti_context),
    [CUPTI_KIND_CONCURRENT_KERNEL] = sizeof(struct cupti_kernel),
    [CUPTI_KIND_OVERHEAD] = sizeof(struct cupti_overhead),
    [CUPTI_KIND_MEMCPY_PEER] = offsetof(struct cupti_memcpy_peer, graph) + 4,
    [CUPTI_KIND_STREAM] = sizeof(struct cupti_stream),
    [CUPTI_KIND_SYNC] = sizeof(struct cupti_sync),
    [CUPTI_KIND_MEMORY] = sizeof(struct cupti_memory),
    [CUPTI_KIND_GRAPH] = sizeof(struct cupti_graph),
};

// `bytes`: how long this version's record is. clang-format off: a table.
// clang-format off
static void tell(struct rls_shim_slot* slot, uint32_t kind, const void* record, uint64_t bytes) {
  switch (kind) {
    case CUPTI_KIND_DRIVER:
    case CUPTI_KIND_RUNTIME: tell_call(slot, record); break;
    case CUPTI_KIND_KERNEL:
    case CUPTI_KIND_CONCURRENT_KERNEL: tell_kernel(slot, record); break;
    case CUPTI_KIND_MEMCPY: tell_memcpy(slot, record); break;
    case CUPTI_KIND_MEMCPY_PEER: tell_memcpy_peer(slot, record); break;
    case CUPTI_KIND_MEMSET: tell_memset(slot, record); break;
    case CUPTI_KIND_SYNC: tell_sync(slot, record); break;
    case CUPTI_KIND_GRAPH: tell_graph(slot, record); break;
    case CUPTI_KIND_OVERHEAD: tell_overhead(slot, record, bytes); break;
    case CUPTI_KIND_MEMORY: tell_memory(slot, record); break;
    case CUPTI_KIND_CONTEXT: {
      const struct cupti_context* context = record;
      rls_cupti_note_context(slot, context->context, context->device);
      break;
    }
    case CUPTI_KIND_STREAM: {
      const struct cupti_stream* stream = record;
      rls_cupti_note_stream(slot, stream->context, stream->stream);
      break;
    }
    default: break;
  }
}
// clang-format on

static void convert_one(struct rls_shim_slot* slot, const uint8_t* record, uint64_t bytes) {
  uint32_t kind;
  memcpy(&kind, record, sizeof(kind));
  rls_cupti_make_room(slot);
  if (RLS_LIKELY(kind < CUPTI_KIND_KNOWN && bytes >= kBytes[kind])) {
    if (kBytes[kind] != 0) tell(slot, kind, record, bytes);
  } else {
    ++unreadable[kind < CUPTI_KIND_KNOWN ? kind : 0];
  }
}

static void tell_unreadable(struct rls_shim_slot* slot) {
  for (uint32_t kind = 0; kind < CUPTI_KIND_KNOWN; ++kind) {
    if (unreadable[kind] == 0) continue;
    rls_cupti_tell_loss(slot, RLS_SHIM_GPU_UNREADABLE, kind, unreadable[kind]);
    unreadable[kind] = 0;
  }
}

void rls_cupti_count_lost(const struct rls_buffer* buffer) {
  struct rls_shim_header* header = rls_process.header;
  uint8_t* record = NULL;
  uint64_t count = 0;
  while (rls_cupti.functions.next_record((uint8_t*)buffer->records, buffer->valid_bytes, &record) ==
         CUPTI_OK)
    ++count;
  if (__atomic_fetch_add(&header->lost_events, count, __ATOMIC_RELAXED) == 0)
    header->first_lost_ns = rls_now_ns();
}

void rls_cupti_convert(struct rls_shim_slot* slot, const struct rls_buffer* buffer) {
  uint8_t* records = (uint8_t*)buffer->records;
  uint8_t* const end = records + buffer->valid_bytes;
  uint8_t* record = NULL;
  uint8_t* next = NULL;
  cupti_result result;
  // One record behind the walk: where the next one begins, this one ends.
  while ((result = rls_cupti.functions.next_record(records, buffer->valid_bytes, &next)) ==
         CUPTI_OK) {
    // A walker that does not advance would keep us for ever.
    if (next == NULL || next < records || next >= end || (record != NULL && next <= record)) break;
    if (record != NULL) convert_one(slot, record, (uint64_t)(next - record));
    record = next;
  }
  if (record != NULL) convert_one(slot, record, (uint64_t)(end - record));
  if (result != CUPTI_NO_MORE_RECORDS) {
    ++unreadable[0];
    if (rls_cupti_failed_in_part("cuptiActivityGetNextRecord", result)) rls_cupti_tell_status(slot);
  }
  tell_unreadable(slot);
}
