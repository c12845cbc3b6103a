// Threads and their slots.
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ring.h"

// Looking through slots that are all taken costs microseconds: not at every event.
#define SKIP_WITHOUT_SLOT 1000
#define STACK_BYTES (1U << 20)  // libcupti may be loaded on it
// The last slots: for the thread that starts CUPTI, and the one that fetches its records.
#define SLOTS_OF_GPU 2

__thread struct rls_thread rls_thread;

static pthread_key_t exit_key;
static bool has_exit_key;

// Ranges that nobody will end: reported, so that they can be counted. end_ns 0: it is not known
// when the thread ended.
static void tell_open_ranges(struct rls_shim_slot* slot, uint64_t end_ns) {
  const uint32_t kept = slot->depth < RLS_SHIM_MAX_DEPTH ? slot->depth : RLS_SHIM_MAX_DEPTH;
  for (uint32_t depth = kept; depth-- > 0;) {
    const struct rls_shim_event record =
        rls_range_record(RLS_SHIM_OPEN, &slot->open[depth], depth, end_ns);
    rls_append_range(slot, &record);
  }
  __atomic_store_n(&slot->depth, 0, __ATOMIC_RELEASE);
}

// Gives the slot back, with what is in its ring: whoever takes it writes a THREAD record behind.
static void leave(void* own) {
  struct rls_thread* thread = own;
  if (thread->slot == NULL || thread->incarnation != *rls_incarnation) return;
  struct rls_shim_slot* slot = thread->slot;
  thread->slot = NULL;
  thread->is_leaving = true;
  if (rls_reader() != 0) tell_open_ranges(slot, rls_now_ns());
  __atomic_store_n(&slot->depth, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void prepare(void) {
  has_exit_key = pthread_key_create(&exit_key, leave) == 0;
}

int rls_start_thread(void* (*run)(void*)) {
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  pthread_t thread;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  sigfillset(&all);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  error = pthread_create(&thread, &attributes, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

static struct rls_shim_slot* slot_at(uint32_t index) {
  return (struct rls_shim_slot*)((char*)rls_process.header + RLS_SHIM_HEADER_BYTES +
                                 (size_t)index * RLS_SHIM_SLOT_BYTES);
}

static bool claim(struct rls_shim_slot* slot, uint32_t from, uint32_t tid) {
  return __atomic_compare_exchange_n(&slot->owner, &from, tid, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

static void note_used(uint32_t count) {
  uint32_t* used = &rls_process.header->slots_used;
  uint32_t seen = __atomic_load_n(used, __ATOMIC_RELAXED);
  while (seen < count && !__atomic_compare_exchange_n(used, &seen, count, true, __ATOMIC_RELEASE,
                                                      __ATOMIC_RELAXED)) {
  }
}

static uint32_t slot_limit(void) {
  return rls_thread.is_of_gpu ? RLS_SHIM_SLOTS : RLS_SHIM_SLOTS - SLOTS_OF_GPU;
}

static struct rls_shim_slot* free_slot(uint32_t tid) {
  const uint32_t limit = slot_limit();
  for (uint32_t index = 0; index < limit; ++index) {
    struct rls_shim_slot* slot = slot_at(index);
    if (__atomic_load_n(&slot->owner, __ATOMIC_RELAXED) != 0 || !claim(slot, 0, tid)) continue;
    note_used(index + 1);
    return slot;
  }
  return NULL;
}

// Of a thread that ended without saying so.
static struct rls_shim_slot* abandoned_slot(uint32_t tid) {
  const int saved = errno;
  struct rls_shim_slot* found = NULL;
  const uint32_t limit = slot_limit();
  for (uint32_t index = 0; index < limit && found == NULL; ++index) {
    struct rls_shim_slot* slot = slot_at(index);
    const uint32_t owner = __atomic_load_n(&slot->owner, __ATOMIC_ACQUIRE);
    const bool is_gone = owner == 0 || owner == tid ||
                         (syscall(SYS_tgkill, getpid(), owner, 0) != 0 && errno == ESRCH);
    if (is_gone && claim(slot, owner, tid)) found = slot;
  }
  errno = saved;
  return found;
}

static void count_lost_event(void) {
  struct rls_shim_header* header = rls_process.header;
  if (header == NULL || rls_thread.is_of_gpu) return;
  if (__atomic_fetch_add(&header->lost_events, 1, __ATOMIC_RELAXED) == 0)
    header->first_lost_ns = rls_now_ns();
}

static struct rls_shim_slot* take_slot(void) {
  struct rls_thread* thread = &rls_thread;
  const uint32_t tid = (uint32_t)syscall(SYS_gettid);
  struct rls_shim_slot* slot = free_slot(tid);
  if (slot == NULL) slot = abandoned_slot(tid);
  if (slot == NULL) {
    thread->events_to_skip = SKIP_WITHOUT_SLOT;
    count_lost_event();
    return NULL;
  }
  rls_ring_is_unknown = false;
  tell_open_ranges(slot, 0);
  if (slot->gap.end_ns != 0) slot->former = slot->gap;
  __atomic_store_n(&slot->gap.end_ns, 0, __ATOMIC_RELEASE);
  slot->gap.owner = tid;
  rls_introduce(slot);
  thread->slot = slot;
  thread->incarnation = *rls_incarnation;
  thread->busy = false;
  if (has_exit_key) pthread_setspecific(exit_key, thread);
  return slot;
}

struct rls_shim_slot* rls_thread_enter(void) {
  if (!rls_process_start()) return NULL;
  struct rls_thread* thread = &rls_thread;
  if (thread->events_to_skip > 0) {
    --thread->events_to_skip;
    count_lost_event();
    return NULL;
  }
  // A signal handler of a thread that has no slot yet must not take another one.
  if (thread->entering == *rls_incarnation) {
    count_lost_event();
    return NULL;
  }
  thread->entering = *rls_incarnation;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  struct rls_shim_slot* slot = take_slot();
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->entering = 0;
  return slot;
}
