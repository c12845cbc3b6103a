// What the driver says of its GPUs, and the contexts and streams seen so far.
#ifndef RLS_CUPTI_DEVICES_H
#define RLS_CUPTI_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "records.h"

#define RLS_UNKNOWN_ID UINT32_MAX

// False: the driver is not ready yet.
bool rls_cupti_tell_devices(struct rls_shim_slot* slot);
void rls_cupti_note_context(struct rls_shim_slot* slot, uint32_t context, uint32_t device);
void rls_cupti_note_stream(struct rls_shim_slot* slot, uint32_t context, uint32_t stream);
uint32_t rls_cupti_device_of(uint32_t context);
// All of them again, for another reader.
void rls_cupti_tell_named(struct rls_shim_slot* slot);

#endif  // RLS_CUPTI_DEVICES_H
