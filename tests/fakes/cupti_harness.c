// The shim's decoder of CUPTI's records, by itself: any walker, any buffer, no process around it.
//
// Compiled with the shim's own sources. For tests only.
#include <stdlib.h>
#include <string.h>

#include "cupti_records.h"
#include "cupti_status.h"
#include "process.h"
#include "ring.h"
#include "thread.h"

// Stands for a process with a reader, and holds a buffer as CUPTI gave it.
static struct rls_buffer* prepare(void* next_record, void* callback_name, uint32_t api,
                                  const uint8_t* records, uint64_t valid_bytes,
                                  struct rls_shim_slot** slot) {
  static struct rls_shim_header header;
  *slot = aligned_alloc(64, RLS_SHIM_SLOT_BYTES);
  struct rls_buffer* buffer = aligned_alloc(64, (sizeof(*buffer) + valid_bytes + 63) / 64 * 64);
  if (*slot == NULL || buffer == NULL) abort();
  memset(*slot, 0, sizeof(**slot));
  // Each time another reader, who was told no name yet.
  ++header.reader;
  rls_process.header = &header;
  rls_cupti.version = api;
  rls_cupti.has_thread_ids = true;
  *(void**)&rls_cupti.functions.next_record = next_record;
  *(void**)&rls_cupti.functions.get_callback_name = callback_name;
  buffer->valid_bytes = valid_bytes;
  memcpy(buffer->records, records, valid_bytes);
  return buffer;
}

__attribute__((visibility("default"))) uint64_t harness_convert(void* next_record,
                                                                void* callback_name, uint32_t api,
                                                                const uint8_t* records,
                                                                uint64_t valid_bytes,
                                                                uint8_t* cells, uint64_t room) {
  struct rls_shim_slot* slot;
  struct rls_buffer* buffer = prepare(next_record, callback_name, api, records, valid_bytes, &slot);
  rls_cupti_convert(slot, buffer);
  const uint64_t written = slot->head;
  if (written > room || slot->dropped_events + slot->dropped_names > 0) abort();
  memcpy(cells, rls_ring_data(slot), written);
  free(buffer);
  free(slot);
  return written;
}

static uint64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

// CPU time of converting the buffer so often, by a reader that is never behind.
__attribute__((visibility("default"))) uint64_t harness_cost(void* next_record, void* callback_name,
                                                             uint32_t api, const uint8_t* records,
                                                             uint64_t valid_bytes, int rounds) {
  struct rls_shim_slot* slot;
  struct rls_buffer* buffer = prepare(next_record, callback_name, api, records, valid_bytes, &slot);
  uint64_t sum_ns = 0;
  // The first round touches all memory for the first time, and is not counted.
  for (int round = -1; round < rounds; ++round) {
    const uint64_t start_ns = cpu_ns();
    rls_cupti_convert(slot, buffer);
    if (round >= 0) sum_ns += cpu_ns() - start_ns;
    slot->tail = slot->head;
  }
  if (slot->dropped_events + slot->dropped_names > 0) abort();
  free(buffer);
  free(slot);
  return sum_ns;
}
