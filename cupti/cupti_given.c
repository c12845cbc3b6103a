// The names that a program gives to its GPUs, contexts and streams, by NVTX.
//
// The thread that gives a name finds out whose it is, while that is sure to exist. The flush thread
// tells it, as all else of the GPU, and keeps it for readers to come.
#include "cupti_given.h"

#include <errno.h>
#include <stdlib.h>

#include "cupti_devices.h"
#include "cupti_library.h"
#include "cupti_records.h"
#include "cupti_status.h"
#include "cupti_wake.h"
#include "names.h"
#include "ring.h"

// Programs name a few streams. Of one that names more, the further names are reported and
// forgotten.
#define MAX_KEPT 1024
// GPUs have numbers before the driver is started, and programs name them then. Their names wait for
// CUPTI, also in a forked child; as many as this, for CUPTI may never be started.
#define MAX_EARLY 64

typedef uint32_t (*stream_get_context)(void* stream, void** context);

struct given {
  struct given* next;
  struct rls_shim_gpu_named record;
  uint32_t length;
  char text[];
};

static struct given* fresh;  // of any thread, newest first
static struct given* kept;   // of each GPU, context and stream the last one; flush thread only
static uint32_t kept_count;
static uint32_t early_count;
static uint32_t lost_count;  // names that were not reported yet, and will not be

static uint16_t state(void) { return __atomic_load_n(&rls_cupti.state, __ATOMIC_RELAXED); }

static bool is_on(void) { return rls_cupti_is_own_incarnation() && state() == RLS_SHIM_GPU_ON; }

// Whether CUPTI may be started in this process, or is just being started.
static bool is_undecided(void) {
  return (rls_cupti.incarnation == 0 || rls_cupti_is_own_incarnation()) && state() == 0;
}

static void count_lost(void) { __atomic_fetch_add(&lost_count, 1, __ATOMIC_RELAXED); }

// Whether one more name may wait.
static bool can_wait(void) {
  uint32_t count = __atomic_load_n(&early_count, __ATOMIC_RELAXED);
  while (count < MAX_EARLY) {
    if (__atomic_compare_exchange_n(&early_count, &count, count + 1, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return true;
  }
  count_lost();
  return false;
}

static void give(const struct rls_shim_gpu_named* record, const char* text) {
  uint32_t length;
  const uint64_t hash = rls_hash(text, &length);
  struct given* name = malloc(sizeof(*name) + length);
  if (name == NULL) {
    count_lost();
    return;
  }
  name->record = *record;
  name->record.kind = RLS_SHIM_GPU_NAMED;
  name->record.name = hash;
  name->length = length;
  memcpy(name->text, text, length);
  name->next = __atomic_load_n(&fresh, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&fresh, &name->next, name, true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  rls_cupti_wake();
}

// CUPTI's numbers of a context and its device; false: it knows none of them.
static bool find_context(void* context, struct rls_shim_gpu_named* record) {
  const struct cupti_functions* f = &rls_cupti.functions;
  if (f->get_context_id == NULL || context == NULL ||
      f->get_context_id(context, &record->context) != CUPTI_OK)
    return false;
  if (f->get_device_id == NULL || f->get_device_id(context, &record->device) != CUPTI_OK)
    record->device = RLS_UNKNOWN_ID;
  return true;
}

// Only the driver knows whose a handle is: CUPTI wants the context too, and its records hold no
// handles. The driver reads what the handle points to, as in every call of the program with it, so
// that of a stream that was destroyed it may crash: NVTX has to be given one that exists.
static bool find_stream(void* stream, struct rls_shim_gpu_named* record) {
  const struct cupti_functions* f = &rls_cupti.functions;
  void* context = NULL;
  if (f->get_context_id == NULL || f->get_stream_id == NULL) return false;
  const stream_get_context get = (stream_get_context)rls_cuda_function("cuStreamGetCtx");
  return get != NULL && get(stream, &context) == CUDA_OK && find_context(context, record) &&
         f->get_stream_id(context, stream, 0, &record->stream) == 0;
}

void rls_cupti_name_device(uint32_t device, const char* name) {
  // A GPU is recognised by what has no context.
  if (is_on() || (is_undecided() && can_wait()))
    give(&(struct rls_shim_gpu_named){.device = device, .context = RLS_UNKNOWN_ID}, name);
}

void rls_cupti_name_context(void* context, const char* name) {
  struct rls_shim_gpu_named record = {.is_stream = 0};
  const int saved = errno;
  if (is_on() && find_context(context, &record)) give(&record, name);
  errno = saved;
}

void rls_cupti_name_stream(void* stream, const char* name) {
  struct rls_shim_gpu_named record = {.is_stream = 1};
  const int saved = errno;
  if (is_on() && find_stream(stream, &record)) give(&record, name);
  errno = saved;
}

static void tell(struct rls_shim_slot* slot, const struct given* name) {
  rls_cupti_make_room(slot);
  rls_tell_name(slot, name->record.name, name->text, name->length);
  rls_append(slot, &name->record);
}

static bool are_of_one(const struct rls_shim_gpu_named* left,
                       const struct rls_shim_gpu_named* right) {
  const bool is_device = left->context == RLS_UNKNOWN_ID;
  return left->is_stream == right->is_stream && left->context == right->context &&
         left->stream == right->stream && (!is_device || left->device == right->device);
}

// In place of the name that it had before.
static void keep(struct given* name) {
  struct given** place = &kept;
  while (*place != NULL && !are_of_one(&(*place)->record, &name->record)) place = &(*place)->next;
  struct given* before = *place;
  if (before == NULL && kept_count == MAX_KEPT) {
    free(name);
    return;
  }
  kept_count += before == NULL ? 1 : 0;
  name->next = before != NULL ? before->next : NULL;
  *place = name;
  free(before);
}

static struct given* take_fresh(void) {
  struct given* newest = __atomic_exchange_n(&fresh, NULL, __ATOMIC_ACQUIRE);
  struct given* oldest = NULL;
  while (newest != NULL) {
    struct given* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

static void tell_lost(struct rls_shim_slot* slot) {
  const uint32_t lost = __atomic_exchange_n(&lost_count, 0, __ATOMIC_RELAXED);
  if (lost == 0) return;
  __atomic_store_n(&slot->dropped_names, slot->dropped_names + lost - 1, __ATOMIC_RELAXED);
  rls_count(slot, &slot->dropped_names);  // the last one, and when
}

void rls_cupti_tell_given(struct rls_shim_slot* slot) {
  if (slot != NULL) tell_lost(slot);
  for (struct given* name = take_fresh(); name != NULL;) {
    struct given* next = name->next;
    if (slot != NULL) tell(slot, name);
    keep(name);
    name = next;
  }
}

void rls_cupti_tell_given_again(struct rls_shim_slot* slot) {
  for (const struct given* name = kept; name != NULL; name = name->next) tell(slot, name);
}
