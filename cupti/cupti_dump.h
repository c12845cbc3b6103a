// RLSCOPE_CUPTI_DUMP.
#ifndef RLS_CUPTI_DUMP_H
#define RLS_CUPTI_DUMP_H

#include "cupti_buffers.h"

void rls_cupti_dump_prepare(const char* folder);
void rls_cupti_dump(const struct rls_buffer* buffer);

#endif  // RLS_CUPTI_DUMP_H
