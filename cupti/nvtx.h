// NVTX as the shim handles it.
#ifndef RLS_NVTX_H
#define RLS_NVTX_H

#include "nvtx_abi.h"

// Our handler of a function, or NULL: the object's own stays a no-op. `module` is one of
// NVTX_MODULE_*, `id` of the enum of that module.
nvtx_function rls_nvtx_handler(unsigned module, unsigned id);

// Stores our handlers into a table of `size` entries.
void rls_nvtx_fill(unsigned module, nvtx_table table, unsigned size);

#endif  // RLS_NVTX_H
