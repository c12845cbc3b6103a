// Of the header of CUDA's runtime, what NVTX's headers need.
#pragma once
typedef void *cudaStream_t, *cudaEvent_t;
