// The calls of the CUDA runtime and driver that are recorded, and their names.
#ifndef RLS_CUPTI_CALLS_H
#define RLS_CUPTI_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "records.h"

// Enables them. Sets their bits in rls_cupti.recorded and .refused.
void rls_cupti_enable_calls(void);
// Stops or goes on.
void rls_cupti_switch_calls(bool on);
// The hash of a call's name, reported; 0: it has none. False: this call is not wanted.
bool rls_cupti_call_name(struct rls_shim_slot* slot, uint32_t kind, uint32_t function,
                         uint64_t* name);

#endif  // RLS_CUPTI_CALLS_H
