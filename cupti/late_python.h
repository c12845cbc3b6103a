// The Python half of a late attach.
#ifndef RLS_LATE_PYTHON_H
#define RLS_LATE_PYTHON_H

#include "late_request.h"

// Queues it; returns when it ran or after a while.
void rls_late_python(const struct rls_late_request* request, struct rls_late_status* status);

#endif  // RLS_LATE_PYTHON_H
