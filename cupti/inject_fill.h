// Fills the slots of an NVTX instance that was found in memory.
#ifndef RLS_INJECT_FILL_H
#define RLS_INJECT_FILL_H

#include <stdint.h>

#include "inject_request.h"

// That at `address`, which was found in the object `path`.
void rls_inject_fill(uint64_t address, const char* path, struct rls_inject_status* status);

#endif  // RLS_INJECT_FILL_H
