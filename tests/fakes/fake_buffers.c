// The fake CUPTI: records wait until what they tell has ended, and go into the client's buffers.
//
// As with the real one, a buffer is asked for in whatever thread has a record to write, and handed
// over by a thread of CUPTI's own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cupti.h"

#define PERIOD_NS 5000000
#define MAX_FULL 64

struct buffer {
  uint8_t* memory;
  size_t bytes;
  size_t max_records;
  size_t used;
  size_t records;
};

struct pending {
  struct pending* next;
  struct fake_event event;
};

static struct buffer current;
static struct buffer full[MAX_FULL];
static size_t full_count;
static struct pending* pending;
static uint64_t dropped;
static uint64_t written;
static pid_t worker_pid;
static uint64_t flushes_wanted, flushes_done;
static bool is_forced;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void retire_current(void) {
  if (current.memory == NULL) return;
  if (full_count == MAX_FULL) abort();
  full[full_count++] = current;
  current = (struct buffer){0};
  pthread_cond_broadcast(&changed);
}

static bool open_buffer(void) {
  fake_cupti.request(&current.memory, &current.bytes, &current.max_records);
  if (current.memory != NULL && current.bytes > 0) return true;
  if (fake_cupti.api < 27) {
    fputs("fake CUPTI: a CUPTI before 12.9 may crash when it is given no buffer\n", stderr);
    abort();
  }
  current = (struct buffer){0};
  return false;
}

// FAKECUPTI_DROP=N: of N records one is lost.
static bool is_lost(void) {
  const char* every = getenv("FAKECUPTI_DROP");
  ++written;
  return every != NULL && written % strtoull(every, NULL, 10) == 0;
}

// The caller holds the lock.
static void write_record(const struct fake_event* event, uint64_t tid) {
  uint8_t record[FAKE_RECORD_BYTES];
  const size_t bytes = fake_write_record(fake_cupti.api, event, tid, record);
  if (fake_cupti.request == NULL) return;
  if (current.memory != NULL &&
      (current.used + bytes > current.bytes ||
       (current.max_records > 0 && current.records == current.max_records)))
    retire_current();
  if (is_lost() || (current.memory == NULL && !open_buffer())) {
    ++dropped;
    return;
  }
  memcpy(current.memory + current.used, record, bytes);
  current.used += bytes;
  ++current.records;
}

// What has ended by now is written, and of a forced flush the rest too, without times.
static void write_pending(bool force) {
  const uint64_t now_ns = fake_clock(CLOCK_MONOTONIC);
  for (struct pending** link = &pending; *link != NULL;) {
    struct pending* found = *link;
    const bool has_ended = found->event.end_ns <= now_ns;
    if (!has_ended && !force) {
      link = &found->next;
      continue;
    }
    const uint64_t offset = fake_clock_offset(found->event.kind);
    found->event.start_ns = has_ended ? found->event.start_ns + offset : 0;
    found->event.end_ns = has_ended ? found->event.end_ns + offset : 0;
    write_record(&found->event, 0);
    *link = found->next;
    free(found);
  }
}

// Waits for a flush, a full buffer, or while something is pending for a little.
static void wait_for_work(void) {
  while (full_count == 0 && flushes_done == flushes_wanted) {
    if (pending == NULL) {
      pthread_cond_wait(&changed, &fake_cupti.lock);
      continue;
    }
    const uint64_t until_ns = fake_clock(CLOCK_REALTIME) + PERIOD_NS;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000U),
                                   .tv_nsec = (long)(until_ns % 1000000000U)};
    pthread_cond_timedwait(&changed, &fake_cupti.lock, &until);
    write_pending(false);
  }
}

static void hand_over(void) {
  while (full_count > 0) {
    const struct buffer done = full[0];
    memmove(full, full + 1, --full_count * sizeof full[0]);
    pthread_mutex_unlock(&fake_cupti.lock);
    fake_cupti.complete(NULL, 0, done.memory, done.bytes, done.used);
    pthread_mutex_lock(&fake_cupti.lock);
  }
}

static void* work(void* unused) {
  pthread_mutex_lock(&fake_cupti.lock);
  for (;;) {
    wait_for_work();
    const uint64_t wanted = flushes_wanted;
    if (flushes_done != wanted) {
      write_pending(is_forced);
      // A forced flush gives back an empty buffer too.
      if (current.used > 0 || is_forced) retire_current();
    }
    hand_over();
    if (flushes_done != wanted && fake_replays()) {
      pthread_mutex_unlock(&fake_cupti.lock);
      fake_replay(fake_cupti.request, fake_cupti.complete);
      pthread_mutex_lock(&fake_cupti.lock);
    }
    flushes_done = wanted;
    pthread_cond_broadcast(&changed);
  }
  return unused;
}

// The caller holds the lock.
static void start_worker(void) {
  if (worker_pid != 0) return;
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0) abort();
  pthread_detach(thread);
  worker_pid = getpid();
}

// In a forked child this never returns: the thread that would answer is the parent's.
void fake_flush(bool force) {
  pthread_mutex_lock(&fake_cupti.lock);
  start_worker();
  const uint64_t wanted = ++flushes_wanted;
  is_forced = force;
  pthread_cond_broadcast(&changed);
  while (flushes_done < wanted) pthread_cond_wait(&changed, &fake_cupti.lock);
  pthread_mutex_unlock(&fake_cupti.lock);
}

uint64_t fake_take_dropped(void) {
  pthread_mutex_lock(&fake_cupti.lock);
  const uint64_t taken = dropped;
  dropped = 0;
  pthread_mutex_unlock(&fake_cupti.lock);
  return taken;
}

// Whole graphs or their nodes: never both.
static bool is_wanted(const struct fake_event* event) {
  const bool tells_graphs = fake_cupti.enabled >> FAKE_GRAPH & 1;
  if (event->kind == FAKE_DRIVER_CALL) return fake_cupti.calls[FAKE_DRIVER][event->function];
  if (event->kind == FAKE_RUNTIME_CALL) return fake_cupti.calls[FAKE_RUNTIME][event->function];
  if (event->kind != FAKE_GRAPH && event->graph != 0 && tells_graphs) return false;
  // 3: the kind of kernels that are serialised for it.
  if (event->kind == FAKE_KERNEL && fake_cupti.enabled >> 3 & 1) return true;
  return fake_cupti.enabled >> event->kind & 1;
}

// The last comes first: CUPTI promises no order, and a client must not rely on one.
static void keep(const struct fake_event* event) {
  struct pending* made = malloc(sizeof *made);
  if (made == NULL) abort();
  made->event = *event;
  made->next = pending;
  pending = made;
  if (made->next == NULL) pthread_cond_broadcast(&changed);
}

void fake_heard(const struct fake_event* event) {
  if (fake_replays() || (worker_pid != 0 && worker_pid != getpid())) return;
  const uint64_t tid = fake_cupti.has_system_tids ? (uint64_t)gettid() : (uint64_t)pthread_self();
  pthread_mutex_lock(&fake_cupti.lock);
  if (is_wanted(event)) {
    start_worker();
    struct fake_event told = *event;
    const bool is_call = event->kind == FAKE_DRIVER_CALL || event->kind == FAKE_RUNTIME_CALL;
    if (!is_call && event->end_ns > fake_clock(CLOCK_MONOTONIC)) {
      keep(event);
    } else {
      const uint64_t offset = is_call ? 0 : fake_clock_offset(event->kind);
      if (told.start_ns != 0) told.start_ns += offset;
      if (told.end_ns != 0) told.end_ns += offset;
      write_record(&told, tid);
    }
  }
  pthread_mutex_unlock(&fake_cupti.lock);
}
