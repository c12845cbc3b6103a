// Which objects of a process are listened to.
#ifndef RLS_FILTER_H
#define RLS_FILTER_H

#include <stdbool.h>

// Whether the ranges of the object with this path are wanted: see RLSCOPE_NVTX in filter.c.
bool rls_nvtx_allows(const char* object_path);

#endif  // RLS_FILTER_H
