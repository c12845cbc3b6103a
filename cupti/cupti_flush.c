// The thread that fetches records from CUPTI and writes them into its ring.
//
// It sleeps while there is no GPU work. CUPTI asks for a buffer when there is, which wakes it; from
// then on it has CUPTI hand over what is complete, about ten times a second, less often while
// nothing comes of that.
#include "cupti_flush.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cupti_dump.h"
#include "cupti_given.h"
#include "cupti_kinds.h"
#include "cupti_reader.h"
#include "cupti_records.h"
#include "cupti_status.h"
#include "cupti_wake.h"
#include "process.h"
#include "shim.h"
#include "thread.h"

#define SECOND_NS 1000000000U
#define FLUSH_NS 100000000U
#define LONGEST_FLUSH_NS 400000000U
#define PAUSED_NS 250000000U  // how soon a reader that comes is seen
#define READER_STEP_NS 2000000U
// How long the end of the program may be held up, by CUPTI or by a reader that is behind.
#define MAX_EXIT_WAIT_NS SECOND_NS
#define MAX_FAILURES 3
// A reader that was told of us, and has not come: it may be behind.
#define MAX_CHECKS_BEFORE_READER 5

enum { RUNNING = 0, ENDING = 1, ENDED = 2 };

static uint32_t phase;  // of the above

static struct {
  bool is_paused;           // nobody reads, so nothing is enabled
  bool can_write;           // in the last round
  bool has_records;         // ever
  uint32_t checks;          // of a reader that reads no more
  uint64_t checked_ns;      // when that was looked at
  uint64_t head;            // of the ring, then
  uint32_t failures;        // of flushes, one after the other
  uint64_t flush_ns;        // when to flush next; 0: there is nothing to flush
  uint32_t flush_interval;  // ns
} now;

// Who reads; 0: nobody, as far as anybody has said so.
static uint32_t find_reader(void) {
  const uint32_t reader = rls_reader();
  return rls_process.is_heard || rls_readers() > 0 ? reader : 0;
}

// CUPTI that fails again and again is left alone; at the end there is no second try.
static void flush(struct rls_shim_slot* slot, uint32_t flag) {
  if (now.failures >= MAX_FAILURES) return;
  const cupti_result result = rls_cupti.functions.flush_all(flag);
  now.failures = result == CUPTI_OK ? 0 : now.failures + 1;
  if (now.failures < (flag == 0 ? MAX_FAILURES : 1)) return;
  rls_cupti_failed("cuptiActivityFlushAll", result);
  // What came before it failed is no less true.
  if (!now.has_records) rls_cupti.state = RLS_SHIM_GPU_REFUSED;
  rls_cupti_tell_status(slot);
}

// Whether there were any. `slot` NULL: nobody reads, or there is no room for this thread.
static bool empty_queue(struct rls_shim_slot* slot) {
  struct rls_buffer* buffer = rls_buffers_take();
  const bool had_any = buffer != NULL;
  while (buffer != NULL) {
    struct rls_buffer* next = buffer->next;
    rls_cupti_dump(buffer);
    if (slot != NULL) {
      rls_cupti_convert(slot, buffer);
    } else if (find_reader() != 0) {
      rls_cupti_count_lost(buffer);
    }
    rls_buffer_give_back(buffer);
    buffer = next;
  }
  return had_any;
}

// How soon the next flush is due, after one that brought something or not.
static void plan_flush(bool has_flushed, bool came) {
  const uint64_t now_ns = rls_now_ns();
  if (came) {
    now.has_records = true;
    now.flush_interval = FLUSH_NS;
  }
  if (has_flushed && !came && now.flush_interval < LONGEST_FLUSH_NS) now.flush_interval *= 2;
  if (rls_buffers_outstanding() == 0) {
    now.flush_ns = 0;
  } else if (has_flushed || now.flush_ns == 0) {
    now.flush_ns = now_ns + now.flush_interval;
  }
}

static bool can_pause(void) { return rls_cupti.version != CUPTI_API_DISABLE_DEADLOCKS; }

// A program that nobody records any more gets its speed back. CUDA 13.0 before its first update
// may deadlock in cuptiActivityDisable.
static void pause_or_resume(bool is_read) {
  if (now.is_paused != is_read || !can_pause()) return;
  rls_cupti_switch(is_read);
  if (is_read) rls_cupti_begin_anew();
  // What is there belongs to the time when somebody read, or is of no use to anybody.
  if (!is_read) rls_cupti.functions.flush_all(0);
  now.is_paused = !is_read;
}

// A reader that is there empties the ring every few ms. One that was killed says nothing.
static void check_reader(const struct rls_shim_slot* slot) {
  const uint64_t now_ns = rls_now_ns();
  if (now_ns - now.checked_ns < SECOND_NS) return;
  const bool is_behind = __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE) < now.head;
  now.checks = is_behind ? now.checks + 1 : 0;
  now.head = slot->head;
  now.checked_ns = now_ns;
  if (now.checks > (rls_readers() > 0 ? 0 : MAX_CHECKS_BEFORE_READER))
    rls_process_drop_dead_reader();
}

// Somebody reads, and there is no ring for what CUPTI has: it is counted.
static void work_without_slot(uint32_t flag) {
  const bool is_due = now.flush_ns != 0 && rls_now_ns() >= now.flush_ns;
  if (now.failures < MAX_FAILURES && (is_due || flag != 0)) rls_cupti.functions.flush_all(flag);
  plan_flush(is_due, empty_queue(NULL));
}

// One round.
static void work(uint32_t flag) {
  const uint32_t reader = find_reader();
  if (flag == 0) pause_or_resume(reader != 0);
  struct rls_shim_slot* slot = reader != 0 ? rls_cupti_begin() : NULL;
  now.can_write = slot != NULL;
  if (slot == NULL) rls_cupti_tell_given(NULL);
  if (slot == NULL && reader != 0) return work_without_slot(flag);
  if (slot == NULL) {
    empty_queue(NULL);
    now.flush_ns = 0;
    return;
  }
  rls_cupti_introduce(slot, reader);
  struct rls_shim_header* header = rls_process.header;
  const uint32_t asked = __atomic_load_n(&header->gpu_flush, __ATOMIC_ACQUIRE);
  const bool is_asked = asked != header->gpu_flushed;
  // The last reading: what came since the one before lies between two.
  if (flag != 0) rls_cupti_tell_clock(slot);
  const bool is_due = is_asked || (now.flush_ns != 0 && rls_now_ns() >= now.flush_ns);
  if (is_due || flag != 0) flush(slot, flag);
  const bool came = empty_queue(slot);
  if (is_due || came || flag != 0) rls_cupti_tell_losses(slot);
  plan_flush(is_due, came);
  check_reader(slot);
  rls_cupti_done();
  __atomic_store_n(&header->gpu_flushed, asked, __ATOMIC_RELEASE);
  // What CUPTI still holds then, it holds for good.
  if (flag != 0) __atomic_store_n(&header->gpu_buffers, 0, __ATOMIC_RELAXED);
}

// Until the bell rings, or it is time for something.
static void sleep_on(uint32_t heard) {
  uint64_t limit_ns = now.is_paused ? PAUSED_NS : SECOND_NS;
  if (now.flush_ns != 0) {
    const uint64_t now_ns = rls_now_ns();
    limit_ns = now.flush_ns > now_ns ? now.flush_ns - now_ns : 0;
  } else {
    rls_cupti_set_idle(true);
    // A request that came before this was seen does not wake us.
    if (now.can_write && rls_buffers_outstanding() > 0) limit_ns = 0;
  }
  if (limit_ns > 0) rls_cupti_sleep(heard, limit_ns);
  rls_cupti_set_idle(false);
}

// A recorder that had us loaded into a program that runs comes to read in a moment: not to be
// taken for none.
static void await_reader(void) {
  const uint64_t end_ns = rls_now_ns() + SECOND_NS;
  while (find_reader() == 0 && __atomic_load_n(&phase, __ATOMIC_ACQUIRE) == RUNNING &&
         rls_now_ns() < end_ns)
    rls_cupti_sleep(rls_cupti_heard(), READER_STEP_NS);
}

static void* run(void* unused) {
  (void)unused;
  prctl(PR_SET_NAME, "rls-cupti");
  rls_cupti_be_flush_thread();
  now.flush_interval = FLUSH_NS;
  if (rls_cupti.is_late) await_reader();
  while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == RUNNING) {
    const uint32_t heard = rls_cupti_heard();
    work(0);
    if (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == RUNNING) sleep_on(heard);
  }
  work(CUPTI_FLUSH_FORCED);
  __atomic_store_n(&phase, ENDED, __ATOMIC_RELEASE);
  rls_futex_wake(&phase);
  return NULL;
}

// The end of the program: the thread fetches the rest. CUPTI is not called from here, so that one
// that hangs cannot keep the program.
static void end(void) {
  uint32_t expected = RUNNING;
  if (!rls_cupti_is_own_incarnation() || rls_cupti_is_flush_thread() ||
      !__atomic_compare_exchange_n(&phase, &expected, ENDING, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return;
  const uint64_t end_ns = rls_now_ns() + MAX_EXIT_WAIT_NS;
  rls_cupti_wake();
  while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) == ENDING) {
    const uint64_t now_ns = rls_now_ns();
    if (now_ns >= end_ns) break;
    rls_futex_wait(&phase, ENDING, end_ns - now_ns);
  }
}

// By the thread that starts us, so that however soon the process ends, it has reported.
static uint32_t tell_first_reader(void) {
  const uint32_t reader = find_reader();
  // Where nobody listened: a program that is started, long after the recording.
  if (reader == 0 && !rls_cupti.is_late && can_pause()) {
    rls_cupti_switch(false);
    now.is_paused = true;
  }
  struct rls_shim_slot* slot = reader != 0 ? rls_cupti_begin() : NULL;
  if (slot == NULL) return 0;
  rls_cupti_tell_status(slot);
  rls_cupti_done();
  return reader;
}

bool rls_cupti_start_thread(void) {
  static bool is_registered;
  memset(&now, 0, sizeof(now));
  rls_cupti_expect_reader(tell_first_reader());
  phase = RUNNING;
  const bool is_started = rls_start_thread(run) == 0;
  if (is_started && !is_registered) is_registered = atexit(end) == 0;
  return is_started;
}
