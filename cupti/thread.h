// A thread and its slot.
#ifndef RLS_THREAD_H
#define RLS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "process.h"
#include "shim.h"

struct rls_thread {
  struct rls_shim_slot* slot;
  uint32_t incarnation;
  uint32_t entering;        // the incarnation in which it is taking a slot just now; 0: it is not
  uint32_t events_to_skip;  // all slots were taken
  bool is_leaving;  // its slot is given back: what destructors of others still pop is closed
  bool busy;        // a signal handler of this thread must not write into a record half written
  bool is_of_gpu;   // may have the last slots; what it loses is counted elsewhere
};
extern __thread struct rls_thread rls_thread;

// Takes a slot for the calling thread; NULL where there is none.
struct rls_shim_slot* rls_thread_enter(void);

// The slot of the calling thread, or NULL.
static inline struct rls_shim_slot* rls_own_slot(void) {
  struct rls_thread* thread = &rls_thread;
  if (RLS_LIKELY(thread->slot != NULL && thread->incarnation == *rls_incarnation))
    return thread->slot;
  return rls_thread_enter();
}

// Starts a detached thread of our own. Signals of the program must not be taken by a thread that it
// does not know: there all are blocked. 0, or why it could not be started.
int rls_start_thread(void* (*run)(void*));

#endif  // RLS_THREAD_H
