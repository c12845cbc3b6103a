// The shim's decoder of CUPTI's records, by itself: any walker, any buffer, no process around it.
//
// Compiled with the shim's own sources. For tests only.
#include <stdlib.h>

#include "cupti.h"

__attribute__((visibility("default"))) uint64_t harness_convert(void* next_record,
                                                                void* callback_name, uint32_t api,
                                                                const uint8_t* records,
                                                                uint64_t valid_bytes,
                                                                uint8_t* cells, uint64_t room) {
  static struct rls_shim_header header;
  struct rls_shim_slot* slot = aligned_alloc(64, RLS_SHIM_SLOT_BYTES);
  struct rls_buffer* buffer = aligned_alloc(64, (sizeof(*buffer) + valid_bytes + 63) / 64 * 64);
  if (slot == NULL || buffer == NULL) abort();
  memset(slot, 0, sizeof(*slot));
  // Each time another reader, who was told no name yet.
  ++header.reader;
  rls_process.header = &header;
  rls_cupti.version = api;
  rls_cupti.has_thread_ids = true;
  *(void**)&rls_cupti.functions.next_record = next_record;
  *(void**)&rls_cupti.functions.get_callback_name = callback_name;
  buffer->valid_bytes = valid_bytes;
  memcpy(buffer->records, records, valid_bytes);
  rls_cupti_convert(slot, buffer);
  const uint64_t written = slot->head;
  if (written > room || slot->dropped_events + slot->dropped_names > 0) abort();
  memcpy(cells, rls_ring_data(slot), written);
  free(buffer);
  free(slot);
  return written;
}
