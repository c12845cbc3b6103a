// Fills the slots of an NVTX instance that was found in memory.
#ifndef RLS_LATE_FILL_H
#define RLS_LATE_FILL_H

#include <stdint.h>

#include "late_request.h"

// That at `address`, which was found in the object `path`.
void rls_late_fill(uint64_t address, const char* path, struct rls_late_status* status);

#endif  // RLS_LATE_FILL_H
