// What late_maps.c hands out of the shim's search for NVTX.
#ifndef RLS_FUZZ_LATE_MAPS_H
#define RLS_FUZZ_LATE_MAPS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reads one line, which it may change.
int rls_fuzz_late_line(char* line);
// Whether so many words are an instance of NVTX.
int rls_fuzz_late_instance(const uint64_t* words, uint64_t address);
size_t rls_fuzz_late_words(void);

#ifdef __cplusplus
}
#endif

#endif  // RLS_FUZZ_LATE_MAPS_H
