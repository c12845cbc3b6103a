// The Python half of a late attach.
#ifndef RLS_INJECT_PYTHON_H
#define RLS_INJECT_PYTHON_H

#include "inject_request.h"

// Queues it; returns when it ran or after a while.
void rls_inject_python(const struct rls_inject_request* request, struct rls_inject_status* status);

#endif  // RLS_INJECT_PYTHON_H
