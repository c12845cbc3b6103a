// Late attach: the shim was loaded into a process that had been running for a while.
//
// What NVTX does at its first call, handing its function slots to a tool, has happened in such a
// process, without a tool. So the objects that carry NVTX are looked for in memory, and their
// slots are filled from outside.
#ifndef RLS_INJECT_SCAN_H
#define RLS_INJECT_SCAN_H

#include <stdbool.h>

#include "inject_request.h"

// Fills the slots of every NVTX instance in the memory of this process; false: it cannot be read.
bool rls_inject_scan(struct rls_inject_status* status);

#endif  // RLS_INJECT_SCAN_H
