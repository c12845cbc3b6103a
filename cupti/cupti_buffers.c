// The buffers that CUPTI fills: a pool, and a queue of those that are full.
//
// Both callbacks run on threads of the program or of CUPTI, in the midst of a CUDA call: they take
// no lock, convert nothing and wait for nobody. The flush thread empties the queue.
#include "cupti_buffers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "cupti_status.h"
#include "cupti_wake.h"
#include "process.h"

#define BUFFER_BYTES (1U << 20)
#define RECORD_BYTES (BUFFER_BYTES - sizeof(struct rls_buffer))
#define MAX_POOL 16
// Of all that are in CUPTI's hands or wait to be converted: 256 MiB.
#define MAX_BUFFERS 256
// Of all that there are, at any time: a CUPTI that may not be given none can ask for more.
#define MAX_LIVE 4096

_Static_assert(sizeof(struct rls_buffer) == 64, "records begin on a cache line");

static struct rls_buffer* pool[MAX_POOL];
static struct rls_buffer* completed;  // newest first
static struct rls_buffer* reserve;    // for when there is no memory: CUPTI may crash without
static uint32_t outstanding;
static uint32_t in_use;
static uint64_t refused;
static uint64_t foreign;
// All that we made and did not unmap. CUPTI has one pair of callbacks: a buffer that another tool
// in the process gave it before we came is handed to us, and is not ours.
static struct rls_buffer* live[MAX_LIVE];
static uint32_t live_used;  // no entry from here on was ever taken

static bool keep(struct rls_buffer* buffer) {
  for (uint32_t i = 0; i < MAX_LIVE; ++i) {
    struct rls_buffer* none = NULL;
    if (!__atomic_compare_exchange_n(&live[i], &none, buffer, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
      continue;
    uint32_t used = __atomic_load_n(&live_used, __ATOMIC_RELAXED);
    while (used <= i && !__atomic_compare_exchange_n(&live_used, &used, i + 1, true,
                                                     __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return true;
  }
  return false;
}

// The entry of a buffer, or NULL. Compares addresses: what another tool gave is not touched.
static struct rls_buffer** entry_of(const uint8_t* records) {
  const uintptr_t address = (uintptr_t)records - offsetof(struct rls_buffer, records);
  const uint32_t used = __atomic_load_n(&live_used, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < used; ++i)
    if ((uintptr_t)__atomic_load_n(&live[i], __ATOMIC_RELAXED) == address) return &live[i];
  return NULL;
}

static struct rls_buffer* make_buffer(void) {
  void* memory =
      mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  if (keep(memory)) return memory;
  munmap(memory, BUFFER_BYTES);
  return NULL;
}

// Once out of the table, its address may become that of another tool's.
static void unmake_buffer(struct rls_buffer* buffer) {
  struct rls_buffer** entry = entry_of(buffer->records);
  if (entry != NULL) __atomic_store_n(entry, NULL, __ATOMIC_RELAXED);
  munmap(buffer, BUFFER_BYTES);
}

void rls_buffers_prepare(void) {
  // What a parent had is not ours, and may be in the midst of a change.
  for (int i = 0; i < MAX_POOL; ++i) pool[i] = NULL;
  memset(live, 0, live_used * sizeof(*live));
  live_used = 0;
  foreign = 0;
  completed = NULL;
  outstanding = 0;
  in_use = 0;
  refused = 0;
  reserve = make_buffer();
}

// Whoever ends without another word leaves this number behind.
static void count_use(uint32_t change) {
  __atomic_fetch_add(&in_use, change, __ATOMIC_RELAXED);
  if (rls_cupti_is_own_incarnation())
    __atomic_fetch_add(&rls_process.header->gpu_buffers, change, __ATOMIC_RELAXED);
}

static struct rls_buffer* from_pool(void) {
  for (int i = 0; i < MAX_POOL; ++i) {
    if (__atomic_load_n(&pool[i], __ATOMIC_RELAXED) == NULL) continue;
    struct rls_buffer* buffer = __atomic_exchange_n(&pool[i], NULL, __ATOMIC_ACQUIRE);
    if (buffer != NULL) return buffer;
  }
  return NULL;
}

static struct rls_buffer* find_buffer(void) {
  struct rls_buffer* buffer = from_pool();
  if (buffer != NULL) return buffer;
  if (__atomic_load_n(&in_use, __ATOMIC_RELAXED) < MAX_BUFFERS) buffer = make_buffer();
  if (buffer != NULL || rls_cupti.version >= CUPTI_API_TAKES_NO_BUFFER) return buffer;
  buffer = __atomic_exchange_n(&reserve, NULL, __ATOMIC_ACQUIRE);
  return buffer != NULL ? buffer : make_buffer();
}

void rls_buffer_requested(uint8_t** records, size_t* bytes, size_t* max_records) {
  const int saved = errno;
  struct rls_buffer* buffer = find_buffer();
  *max_records = 0;
  *records = buffer != NULL ? buffer->records : NULL;
  *bytes = buffer != NULL ? RECORD_BYTES : 0;
  if (buffer == NULL) {
    __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
  } else {
    count_use(1);
    if (__atomic_fetch_add(&outstanding, 1, __ATOMIC_SEQ_CST) == 0) rls_cupti_wake_if_idle();
  }
  errno = saved;
}

void rls_buffer_completed(void* context, uint32_t stream, uint8_t* records, size_t bytes,
                          size_t valid_bytes) {
  (void)context;
  (void)stream;
  (void)bytes;
  if (records == NULL) return;
  if (entry_of(records) == NULL) {
    __atomic_fetch_add(&foreign, 1, __ATOMIC_RELAXED);
    return;
  }
  const int saved = errno;
  struct rls_buffer* buffer = (struct rls_buffer*)(records - offsetof(struct rls_buffer, records));
  __atomic_fetch_sub(&outstanding, 1, __ATOMIC_RELAXED);
  buffer->valid_bytes = valid_bytes < RECORD_BYTES ? valid_bytes : RECORD_BYTES;
  if (valid_bytes == 0 || !rls_cupti_is_own_incarnation()) {
    rls_buffer_give_back(buffer);
  } else {
    buffer->next = __atomic_load_n(&completed, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&completed, &buffer->next, buffer, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
    if (!rls_cupti_is_flush_thread()) rls_cupti_wake();
  }
  errno = saved;
}

uint32_t rls_buffers_outstanding(void) { return __atomic_load_n(&outstanding, __ATOMIC_SEQ_CST); }

uint64_t rls_buffers_refused(void) { return __atomic_exchange_n(&refused, 0, __ATOMIC_RELAXED); }

uint64_t rls_buffers_foreign(void) { return __atomic_load_n(&foreign, __ATOMIC_RELAXED); }

struct rls_buffer* rls_buffers_take(void) {
  struct rls_buffer* newest = __atomic_exchange_n(&completed, NULL, __ATOMIC_ACQUIRE);
  struct rls_buffer* oldest = NULL;
  while (newest != NULL) {
    struct rls_buffer* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

void rls_buffer_give_back(struct rls_buffer* buffer) {
  count_use(UINT32_MAX);
  struct rls_buffer* none = NULL;
  if (__atomic_compare_exchange_n(&reserve, &none, buffer, false, __ATOMIC_RELEASE,
                                  __ATOMIC_RELAXED))
    return;
  for (int i = 0; i < MAX_POOL; ++i) {
    none = NULL;
    if (__atomic_compare_exchange_n(&pool[i], &none, buffer, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED))
      return;
  }
  unmake_buffer(buffer);
}
