// What all rooms of the shim use. Nothing here throws, prints, or waits for a reader.
#ifndef RLS_SHIM_H
#define RLS_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "records.h"

#define RLS_LIKELY(condition) __builtin_expect(!!(condition), 1)

static inline uint64_t rls_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#endif  // RLS_SHIM_H
