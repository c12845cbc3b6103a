// Waking the flush thread: a count of reasons that it sleeps on.
#include "cupti_wake.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000U

static uint32_t alarm_bell;  // counts reasons to wake
static uint32_t is_idle;     // sleeps until there is GPU work
static __thread bool is_flush_thread;

void rls_futex_wait(uint32_t* word, uint32_t value, uint64_t limit_ns) {
  const struct timespec limit = {(time_t)(limit_ns / SECOND_NS), (long)(limit_ns % SECOND_NS)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
}

void rls_futex_wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void rls_cupti_wake(void) {
  __atomic_fetch_add(&alarm_bell, 1, __ATOMIC_RELEASE);
  rls_futex_wake(&alarm_bell);
}

void rls_cupti_wake_if_idle(void) {
  if (__atomic_load_n(&is_idle, __ATOMIC_SEQ_CST)) rls_cupti_wake();
}

bool rls_cupti_is_flush_thread(void) { return is_flush_thread; }

void rls_cupti_be_flush_thread(void) { is_flush_thread = true; }

uint32_t rls_cupti_heard(void) { return __atomic_load_n(&alarm_bell, __ATOMIC_ACQUIRE); }

void rls_cupti_sleep(uint32_t heard, uint64_t limit_ns) {
  rls_futex_wait(&alarm_bell, heard, limit_ns);
}

void rls_cupti_set_idle(bool idle) { __atomic_store_n(&is_idle, idle ? 1 : 0, __ATOMIC_SEQ_CST); }
