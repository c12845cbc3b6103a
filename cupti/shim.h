// What the rooms of the shim offer each other. Nothing here throws, prints, or waits for a reader.
#ifndef RLS_SHIM_H
#define RLS_SHIM_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <wchar.h>

#include "records.h"

#define RLS_LIKELY(condition) __builtin_expect(!!(condition), 1)

// process.c: the memory that this process shares with the collector.

struct rls_process {
  struct rls_shim_header* header;
  uint64_t seed;  // differs between processes and between readers of one
  bool is_heard;  // false: nobody listened where this life announced itself
};
extern struct rls_process rls_process;

// The number of the life that this process leads as far as the shim is concerned: a forked child,
// however it was made, finds 0 here, because the page is wiped in it.
extern const volatile uint32_t* rls_life;

// Sets the memory up, once per life. False: it cannot be had, and will not be tried again.
bool rls_process_start(void);
// With a reader that reads no more: if its process has ended, nobody reads from here on.
void rls_process_drop_dead_reader(void);

// thread.c: a thread and its slot.

struct rls_thread {
  struct rls_shim_slot* slot;
  uint32_t life;
  uint32_t entering;        // the life in which it is taking a slot just now; 0: it is not
  uint32_t events_to_skip;  // all slots were taken
  bool is_leaving;  // its slot is given back: what destructors of others still pop is closed
  bool busy;        // a signal handler of this thread must not write into a record half written
  bool is_of_gpu;   // may have the last slots; what it loses is counted elsewhere
  bool is_unknown;  // its ring has been full since it got it: see rls_introduce
};
extern __thread struct rls_thread rls_thread;

// Takes a slot for the calling thread; NULL where there is none.
struct rls_shim_slot* rls_thread_enter(void);

// The slot of the calling thread, or NULL.
static inline struct rls_shim_slot* rls_own_slot(void) {
  struct rls_thread* thread = &rls_thread;
  if (RLS_LIKELY(thread->slot != NULL && thread->life == *rls_life)) return thread->slot;
  return rls_thread_enter();
}

// Starts a detached thread of our own. Signals of the program must not be taken by a thread that it
// does not know: there all are blocked. 0, or why it could not be started.
int rls_start_thread(void* (*run)(void*));

static inline uint32_t rls_reader(void) {
  return __atomic_load_n(&rls_process.header->reader, __ATOMIC_RELAXED);
}

// Readers that have come so far.
static inline uint32_t rls_readers(void) {
  return __atomic_load_n(&rls_process.header->readers, __ATOMIC_RELAXED);
}

static inline uint64_t rls_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

// names.c: texts become 64-bit hashes; the text itself travels once.

struct rls_text {
  struct rls_text* next;  // of all that were kept
  uint64_t hash;
  uint32_t length;
  char text[];
};

// A copy that lives as long as the process; NULL if there is no memory.
struct rls_text* rls_keep_text(const char* text);
uint64_t rls_hash(const char* text, uint32_t* length);
// UTF-8 of a wide string, cut to what fits.
void rls_narrow(const wchar_t* wide, char* text, uint32_t bytes);

// Makes sure that the collector knows the text behind a hash.
void rls_tell_name(struct rls_shim_slot* slot, uint64_t hash, const char* text, uint32_t length);

// Categories have numbers, which mean something within a domain (0: the default one).
void rls_name_category(uint64_t domain, uint32_t category, const char* name);
void rls_tell_category(struct rls_shim_slot* slot, uint64_t domain, uint32_t category);

#endif  // RLS_SHIM_H
