// Waking the flush thread, which sleeps while there is no GPU work.
#ifndef RLS_CUPTI_WAKE_H
#define RLS_CUPTI_WAKE_H

#include <stdbool.h>
#include <stdint.h>

// From any thread: a buffer is full; the first one was asked for.
void rls_cupti_wake(void);
void rls_cupti_wake_if_idle(void);
bool rls_cupti_is_flush_thread(void);

// Of the flush thread: it is the calling one.
void rls_cupti_be_flush_thread(void);
// How often it was woken so far; sleeps until that is another number, for `limit_ns` at most.
uint32_t rls_cupti_heard(void);
void rls_cupti_sleep(uint32_t heard, uint64_t limit_ns);
// From here on it sleeps until there is GPU work, or no longer.
void rls_cupti_set_idle(bool is_idle);

void rls_futex_wait(uint32_t* word, uint32_t value, uint64_t limit_ns);
void rls_futex_wake(uint32_t* word);

#endif  // RLS_CUPTI_WAKE_H
