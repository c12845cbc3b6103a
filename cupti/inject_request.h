// What the recorder asks of a process that it attaches to, and reads there.
#ifndef RLS_INJECT_REQUEST_H
#define RLS_INJECT_REQUEST_H

#include <stdint.h>

#define RLS_INJECT_VERSION 1
#define RLS_INJECT_MAX_ENVIRONMENT 2048
#define RLS_INJECT_MAX_MESSAGE 2048

// What the recorder asks for; a change of this or of the status bumps RLS_INJECT_VERSION.
struct rls_inject_request {
  uint32_t version;
  uint32_t auto_phases;  // 1: find the phases of Python programs that nobody marked
  // NAME=VALUE, each with its NUL, an empty one at the end: for objects that are loaded, and
  // programs that are executed, from here on. Of Python processes only.
  char environment[RLS_INJECT_MAX_ENVIRONMENT];
};

enum rls_inject_state {
  RLS_INJECT_IDLE = 0,
  RLS_INJECT_SCANNING = 1,
  RLS_INJECT_DONE = 2,
  RLS_INJECT_FAILED = 3,
};

enum rls_inject_python {
  RLS_INJECT_PYTHON_NONE = 0,    // no CPython in this process
  RLS_INJECT_PYTHON_QUEUED = 1,  // runs when the interpreter lets it
  RLS_INJECT_PYTHON_DONE = 2,
  RLS_INJECT_PYTHON_FAILED = 3,
};

// Read by the recorder, out of the memory of the process.
struct rls_inject_status {
  uint32_t version;
  uint32_t state;                        // enum rls_inject_state
  uint32_t python;                       // enum rls_inject_python
  uint32_t filled;                       // objects with NVTX whose slots are ours now
  uint32_t ours;                         // ... were ours before
  uint32_t foreign;                      // ... belong to another tool: left alone
  uint32_t denied;                       // ... are not wanted by the module filter
  uint32_t busy;                         // ... were being set up by their own process: left alone
  char message[RLS_INJECT_MAX_MESSAGE];  // lines of key=value from the Python half
};

extern struct rls_inject_status rlscope_shim_inject_status;

#endif  // RLS_INJECT_REQUEST_H
