// Whether GPU activity is recorded, and if not, why not: a code, and what it is about.
#include "cupti_status.h"

#include <stdio.h>

#include "names.h"
#include "ring.h"
#include "shim.h"
#include "thread.h"

struct rls_cupti rls_cupti;

void rls_cupti_note(enum rls_shim_gpu_why why, const char* subject) {
  rls_cupti.why = (uint16_t)why;
  snprintf(rls_cupti.subject, sizeof(rls_cupti.subject), "%s", subject != NULL ? subject : "");
}

void rls_cupti_failed(const char* call, cupti_result code) {
  rls_cupti.code = code;
  rls_cupti_note(RLS_SHIM_GPU_CALL_FAILED, call);
}

bool rls_cupti_failed_in_part(const char* call, cupti_result code) {
  if (rls_cupti.code != 0) return false;
  rls_cupti_failed(call, code);
  return true;
}

struct rls_shim_slot* rls_cupti_begin(void) {
  // Asks once in a round, not at every event: there is nothing to skip.
  rls_thread.events_to_skip = 0;
  rls_thread.is_of_gpu = true;
  struct rls_shim_slot* slot = rls_own_slot();
  rls_thread.is_of_gpu = false;
  if (slot == NULL) return NULL;
  if (rls_thread.busy) {
    rls_count(slot, &slot->interrupted);
    return NULL;
  }
  rls_thread.busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return slot;
}

void rls_cupti_done(void) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  rls_thread.busy = false;
}

void rls_cupti_tell_text(struct rls_shim_slot* slot, uint64_t* hash, const char* text) {
  *hash = 0;
  if (text == NULL || text[0] == '\0') return;
  uint32_t length;
  *hash = rls_hash(text, &length);
  rls_tell_name(slot, *hash, text, length);
}

void rls_cupti_tell_off(struct rls_shim_slot* slot, enum rls_shim_gpu_why why) {
  const struct rls_shim_gpu_status record = {
      .kind = RLS_SHIM_GPU_STATUS,
      .state = RLS_SHIM_GPU_OFF,
      .ts_ns = rls_now_ns(),
      .is_late = true,
      .why = (uint16_t)why,
  };
  rls_append(slot, &record);
}

void rls_cupti_tell_status(struct rls_shim_slot* slot) {
  struct rls_shim_gpu_status record = {
      .kind = RLS_SHIM_GPU_STATUS,
      .state = rls_cupti.state,
      .code = rls_cupti.code,
      .ts_ns = rls_now_ns(),
      .api = rls_cupti.version,
      .driver = rls_cupti.driver,
      .recorded = rls_cupti.recorded,
      .refused = rls_cupti.refused,
      .is_late = rls_cupti.is_late,
      .has_clock = rls_cupti.has_clock,
      .why = rls_cupti.why,
  };
  rls_cupti_tell_text(slot, &record.subject, rls_cupti.subject);
  rls_cupti_tell_text(slot, &record.library, rls_cupti.library);
  rls_append(slot, &record);
}
