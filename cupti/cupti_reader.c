// What the reader is told beside the records: who we are, the clocks, what was lost.
//
// Flush thread only.
#include "cupti_reader.h"

#include <time.h>

#include "cupti_devices.h"
#include "cupti_given.h"
#include "cupti_records.h"
#include "cupti_status.h"
#include "ring.h"
#include "shim.h"

#define SECOND_NS 1000000000U
#define CLOCK_TRIES 3

static struct {
  uint32_t reader;  // who has status and devices
  bool has_reported_devices;
  bool has_reported_foreign;
  uint64_t clock_ns;  // when the clocks were reported last
} now;

void rls_cupti_expect_reader(uint32_t reader) {
  memset(&now, 0, sizeof(now));
  now.reader = reader;
}

void rls_cupti_tell_clock(struct rls_shim_slot* slot) {
  struct rls_shim_gpu_clock best = {.kind = RLS_SHIM_GPU_CLOCK, .width_ns = UINT32_MAX};
  for (int i = 0; i < CLOCK_TRIES; ++i) {
    struct timespec real;
    uint64_t cupti_ns = 0;
    const uint64_t before_ns = rls_now_ns();
    clock_gettime(CLOCK_REALTIME, &real);
    if (rls_cupti.functions.get_timestamp == NULL ||
        rls_cupti.functions.get_timestamp(&cupti_ns) != CUPTI_OK)
      cupti_ns = 0;
    const uint64_t width_ns = rls_now_ns() - before_ns;
    if (width_ns >= best.width_ns) continue;
    best.width_ns = (uint32_t)width_ns;
    best.monotonic_ns = before_ns + width_ns / 2;
    best.realtime_ns = (uint64_t)real.tv_sec * SECOND_NS + (uint64_t)real.tv_nsec;
    best.cupti_ns = cupti_ns;
  }
  rls_append(slot, &best);
  now.clock_ns = best.monotonic_ns;
}

void rls_cupti_begin_anew(void) {
  struct timespec real;
  clock_gettime(CLOCK_REALTIME, &real);
  rls_cupti.since_ns = rls_now_ns();
  rls_cupti.since_realtime_ns = (uint64_t)real.tv_sec * SECOND_NS + (uint64_t)real.tv_nsec;
}

void rls_cupti_introduce(struct rls_shim_slot* slot, uint32_t reader) {
  if (reader != now.reader) {
    rls_cupti_tell_status(slot);
    if (rls_cupti.since_ns != 0) rls_cupti_begin_anew();
    rls_cupti_tell_named(slot);
    rls_cupti_tell_given_again(slot);
    now.reader = reader;
    now.has_reported_devices = false;
    now.clock_ns = 0;
  }
  rls_cupti_tell_given(slot);
  const bool has_work = rls_buffers_outstanding() > 0;
  if (!now.has_reported_devices && has_work)
    now.has_reported_devices = rls_cupti_tell_devices(slot);
  if (now.clock_ns == 0 || rls_now_ns() - now.clock_ns >= SECOND_NS) rls_cupti_tell_clock(slot);
}

// Another tool in the process uses CUPTI without a subscription, so that nothing keeps us apart.
static void tell_foreign(struct rls_shim_slot* slot) {
  if (now.has_reported_foreign || rls_buffers_foreign() == 0) return;
  now.has_reported_foreign = true;
  if (rls_cupti.why != RLS_SHIM_GPU_NO_REASON) return;
  rls_cupti_note(RLS_SHIM_GPU_SHARED, NULL);
  rls_cupti_tell_status(slot);
}

void rls_cupti_tell_losses(struct rls_shim_slot* slot) {
  size_t dropped = 0;
  const cupti_result result = rls_cupti.functions.get_dropped != NULL
                                  ? rls_cupti.functions.get_dropped(NULL, 0, &dropped)
                                  : CUPTI_OK;
  if (result != CUPTI_OK) {
    if (rls_cupti_failed_in_part("cuptiActivityGetNumDroppedRecords", result))
      rls_cupti_tell_status(slot);
  } else if (dropped > 0) {
    rls_cupti_tell_loss(slot, RLS_SHIM_GPU_DROPPED, 0, dropped);
  }
  const uint64_t refused = rls_buffers_refused();
  if (refused > 0) rls_cupti_tell_loss(slot, RLS_SHIM_GPU_NO_BUFFER, 0, refused);
  tell_foreign(slot);
}
