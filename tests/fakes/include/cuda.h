// Of the header of CUDA's driver, what NVTX's headers need. Its handles are pointers.
#pragma once
typedef int CUdevice;
typedef void *CUcontext, *CUstream, *CUevent;
