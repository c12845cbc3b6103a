// Names of kernels, by their address. Flush thread only.
#ifndef RLS_CUPTI_NAMES_H
#define RLS_CUPTI_NAMES_H

#include <stdint.h>

#include "records.h"

uint64_t rls_cupti_kernel_name(struct rls_shim_slot* slot, const char* name);

#endif  // RLS_CUPTI_NAMES_H
