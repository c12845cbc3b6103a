// Late attach: the shim was loaded into a process that had been running for a while.
//
// What NVTX does at its first call, handing its function slots to a tool, has happened in such a
// process, without a tool. So the objects that carry NVTX are looked for in memory, and their
// slots are filled from outside.
#ifndef RLS_LATE_H
#define RLS_LATE_H

#include <stdbool.h>
#include <stdint.h>

#define RLS_LATE_VERSION 1
#define RLS_LATE_MAX_ENVIRONMENT 2048
#define RLS_LATE_MAX_MESSAGE 2048

// What the recorder asks for; a change of this or of the status bumps RLS_LATE_VERSION.
struct rls_late_request {
  uint32_t version;
  uint32_t auto_phases;  // 1: find the phases of Python programs that nobody marked
  // NAME=VALUE, each with its NUL, an empty one at the end: for objects that are loaded, and
  // programs that are executed, from here on. Of Python processes only.
  char environment[RLS_LATE_MAX_ENVIRONMENT];
};

enum rls_late_state {
  RLS_LATE_IDLE = 0,
  RLS_LATE_SCANNING = 1,
  RLS_LATE_DONE = 2,
  RLS_LATE_FAILED = 3,
};

enum rls_late_python {
  RLS_LATE_PYTHON_NONE = 0,    // no CPython in this process
  RLS_LATE_PYTHON_QUEUED = 1,  // runs when the interpreter lets it
  RLS_LATE_PYTHON_DONE = 2,
  RLS_LATE_PYTHON_FAILED = 3,
};

// Read by the recorder, out of the memory of the process.
struct rls_late_status {
  uint32_t version;
  uint32_t state;                      // enum rls_late_state
  uint32_t python;                     // enum rls_late_python
  uint32_t filled;                     // objects with NVTX whose slots are ours now
  uint32_t ours;                       // ... were ours before
  uint32_t foreign;                    // ... belong to another tool: left alone
  uint32_t denied;                     // ... are not wanted by the module filter
  uint32_t busy;                       // ... were being set up by their own process: left alone
  char message[RLS_LATE_MAX_MESSAGE];  // lines of key=value from the Python half
};

extern struct rls_late_status rlscope_shim_late_status;

// late_scan.c: fills the slots of every NVTX instance in the memory of this process.
bool rls_late_scan(struct rls_late_status* status);

// late_python.c: queues the Python half; returns when it ran or after a while.
void rls_late_python(const struct rls_late_request* request, struct rls_late_status* status);

#endif  // RLS_LATE_H
