// libcupti, and the driver.
#ifndef RLS_CUPTI_LIBRARY_H
#define RLS_CUPTI_LIBRARY_H

#include <stdbool.h>

// Opens the libcupti that belongs to this process. `wanted`: a path that was
// asked for, or NULL. NULL: there is none, and rls_cupti.reason says so.
void* rls_cupti_open(const char* wanted);
// The function behind a name, in the driver that is loaded; NULL: none.
void* rls_cuda_function(const char* name);
// Fills rls_cupti.functions; false: one that nothing works without is missing, see `reason`.
bool rls_cupti_resolve(void* library);

#endif  // RLS_CUPTI_LIBRARY_H
