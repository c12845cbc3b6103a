// NVTX's names of CUDA's devices, contexts and streams.
#ifndef RLS_NVTX_CUDA_H
#define RLS_NVTX_CUDA_H

#include "nvtx_abi.h"

// Our handler of a function of the modules CUDA and CUDART, or NULL: see nvtx.h.
nvtx_function rls_nvtx_cuda_handler(unsigned module, unsigned id);

#endif  // RLS_NVTX_CUDA_H
