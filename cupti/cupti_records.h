// The records of a buffer become cells. Flush thread only.
#ifndef RLS_CUPTI_RECORDS_H
#define RLS_CUPTI_RECORDS_H

#include <stdint.h>

#include "cupti_buffers.h"
#include "records.h"

void rls_cupti_convert(struct rls_shim_slot* slot, const struct rls_buffer* buffer);
// Counts them as lost: this thread has no ring.
void rls_cupti_count_lost(const struct rls_buffer* buffer);
// Waits a little while the ring is full. Flush thread only.
void rls_cupti_make_room(struct rls_shim_slot* slot);
void rls_cupti_tell_loss(struct rls_shim_slot* slot, uint16_t what, uint32_t kind, uint64_t count);

#endif  // RLS_CUPTI_RECORDS_H
