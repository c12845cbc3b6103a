// The memory that this process shares with the collector.
#ifndef RLS_PROCESS_H
#define RLS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "records.h"

struct rls_process {
  struct rls_shim_header* header;
  uint64_t seed;  // differs between processes and between readers of one
  bool is_heard;  // false: nobody listened where it announced itself
};
extern struct rls_process rls_process;

// The number of the incarnation of this process: a forked child, however it was made, finds 0 here,
// because the page is wiped in it.
extern const volatile uint32_t* rls_incarnation;

// Sets the memory up, once per incarnation. False: it cannot be had, and will not be tried again.
bool rls_process_start(void);
// With a reader that reads no more: if its process has ended, nobody reads from here on.
void rls_process_drop_dead_reader(void);

static inline uint32_t rls_reader(void) {
  return __atomic_load_n(&rls_process.header->reader, __ATOMIC_RELAXED);
}

// Readers that have come so far.
static inline uint32_t rls_readers(void) {
  return __atomic_load_n(&rls_process.header->readers, __ATOMIC_RELAXED);
}

#endif  // RLS_PROCESS_H
