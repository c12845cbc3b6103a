// The buffers that CUPTI fills: a pool, and a queue of those that are full.
//
// Both callbacks run on threads of the program or of CUPTI, in the midst of a CUDA call: they take
// no lock, convert nothing and wait for nobody. The flush thread empties the queue.
#include <errno.h>
#include <sys/mman.h>

#include "cupti.h"

#define BUFFER_BYTES (1U << 20)
#define RECORD_BYTES (BUFFER_BYTES - sizeof(struct rls_buffer))
#define MAX_POOL 16
// Of all that are in CUPTI's hands or wait to be converted: 256 MiB.
#define MAX_BUFFERS 256

_Static_assert(sizeof(struct rls_buffer) == 64, "records begin on a cache line");

static struct rls_buffer* pool[MAX_POOL];
static struct rls_buffer* completed;  // newest first
static struct rls_buffer* reserve;    // for when there is no memory: CUPTI may crash without
static uint32_t outstanding;
static uint32_t in_use;
static uint64_t refused;

static struct rls_buffer* make_buffer(void) {
  void* memory =
      mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED ? memory : NULL;
}

void rls_buffers_prepare(void) {
  // What a parent had is not ours, and may be in the midst of a change.
  for (int i = 0; i < MAX_POOL; ++i) pool[i] = NULL;
  completed = NULL;
  outstanding = 0;
  in_use = 0;
  refused = 0;
  reserve = make_buffer();
}

// Whoever ends without another word leaves this number behind.
static void count_use(uint32_t change) {
  __atomic_fetch_add(&in_use, change, __ATOMIC_RELAXED);
  if (rls_cupti_is_own_life())
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
  const int saved = errno;
  struct rls_buffer* buffer = (struct rls_buffer*)(records - offsetof(struct rls_buffer, records));
  __atomic_fetch_sub(&outstanding, 1, __ATOMIC_RELAXED);
  buffer->valid_bytes = valid_bytes < RECORD_BYTES ? valid_bytes : RECORD_BYTES;
  if (valid_bytes == 0 || !rls_cupti_is_own_life()) {
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
  munmap(buffer, BUFFER_BYTES);
}
