// The names that the program gives, from any of its threads; of what CUPTI does not know, or where
// it is not on, nothing is kept, but for names of GPUs before CUPTI is started.
#ifndef RLS_CUPTI_GIVEN_H
#define RLS_CUPTI_GIVEN_H

#include <stdint.h>

#include "records.h"

// `name`: not NULL. `context` and `stream` are the driver's handles, the latter NULL for the
// default stream of the current context; both exist.
void rls_cupti_name_device(uint32_t device, const char* name);
void rls_cupti_name_context(void* context, const char* name);
void rls_cupti_name_stream(void* stream, const char* name);
// Flush thread only: those that came since the last call, NULL: to nobody, they are kept; and for
// another reader the others.
void rls_cupti_tell_given(struct rls_shim_slot* slot);
void rls_cupti_tell_given_again(struct rls_shim_slot* slot);

#endif  // RLS_CUPTI_GIVEN_H
