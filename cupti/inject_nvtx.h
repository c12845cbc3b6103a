// The memory of an NVTX 3 instance: what every object that was compiled with NVTX carries.
//
// The words of the structure, from its start:
//   0       state of the initialisation (32 bits)
//   1, 2    a table of callbacks: its size 16, and a function
//   3..5    version information: its size 24, the version (32 bits), a function
//   6..     the slots: pointers to handlers, module after module
//   then    per module a table: NULL, pointers to its slots, NULL
// As the tables point into the structure itself, it can be distinguished from anything else.
#ifndef RLS_INJECT_NVTX_H
#define RLS_INJECT_NVTX_H

#include <stdbool.h>
#include <stdint.h>

enum { NVTX_STATE_FRESH = 0, NVTX_STATE_STARTED = 1, NVTX_STATE_COMPLETE = 2 };

enum {
  NVTX_WORD_CALLBACKS = 1,
  NVTX_WORD_VERSION_INFO = 3,
  NVTX_WORD_SLOTS = 6,
  NVTX_SLOTS_CORE = 15,
  NVTX_SLOTS_CUDA = 8,
  NVTX_SLOTS_OPENCL = 14,
  NVTX_SLOTS_CUDART = 6,
  NVTX_SLOTS_CORE2 = 15,
  NVTX_SLOTS_SYNC = 6,
  NVTX_SLOTS = 64,
  NVTX_MODULES = 6,
  // Each table has an empty entry at both ends.
  NVTX_WORDS = NVTX_WORD_SLOTS + NVTX_SLOTS + NVTX_SLOTS + 2 * NVTX_MODULES,
  NVTX_BYTES = NVTX_WORDS * 8,
};

// Whether `words`, a copy of what lies at `address`, is an NVTX instance.
bool rls_inject_is_nvtx(const uint64_t* words, uint64_t address);

#endif  // RLS_INJECT_NVTX_H
