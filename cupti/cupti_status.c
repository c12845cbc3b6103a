// Whether GPU activity is recorded, and if not, why not: one sentence a person can act on.
#include "cupti_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "names.h"
#include "ring.h"
#include "shim.h"
#include "thread.h"

struct rls_cupti rls_cupti;

static const struct {
  cupti_result code;
  const char* name;
  const char* meaning;
} kErrors[] = {
    {1, "INVALID_PARAMETER", NULL},
    {7, "INVALID_OPERATION", NULL},
    {8, "OUT_OF_MEMORY", "there is no memory left"},
    {11, "API_NOT_IMPLEMENTED", "this CUPTI does not have it"},
    {14, "NOT_COMPATIBLE", "it excludes something that is on already"},
    {15, "NOT_INITIALIZED", "CUPTI does not fit the driver, or the driver did not start"},
    {21, "INVALID_KIND", "this CUPTI does not have it"},
    {26, "HARDWARE_BUSY", "another tool uses the counters of the GPU"},
    {27, "NOT_SUPPORTED", "not on this GPU or platform"},
    {33, "VIRTUALIZED_DEVICE_NOT_SUPPORTED", "not on a virtual GPU"},
    {35, "INSUFFICIENT_PRIVILEGES",
     "the driver keeps profiling for root (NVreg_RestrictProfilingToAdminUsers)"},
    {36, "OLD_PROFILER_API_INITIALIZED", "another profiler holds CUPTI"},
    {38, "LEGACY_PROFILER_NOT_SUPPORTED", NULL},
    {39, "MULTIPLE_SUBSCRIBERS", "another profiler (torch.profiler, nsys) holds CUPTI"},
    {40, "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
     "the host of this virtual GPU does not allow profiling"},
    {41, "CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "not while confidential computing is on"},
    {42, "CMP_DEVICE_NOT_SUPPORTED", "not on this GPU"},
    {43, "MIG_DEVICE_NOT_SUPPORTED", "not on a MIG instance"},
    {44, "SLI_DEVICE_NOT_SUPPORTED", "not with SLI"},
    {45, "WSL_DEVICE_NOT_SUPPORTED", "not under WSL"},
    {999, "UNKNOWN", "CUPTI does not say why"},
};

static const char* name_of(cupti_result code) {
  const char* text = NULL;
  if (rls_cupti.functions.get_result_string != NULL)
    rls_cupti.functions.get_result_string(code, &text);
  if (text == NULL) return "an error without a name";
  const char* prefix = "CUPTI_ERROR_";
  return strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : text;
}

void rls_cupti_say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(rls_cupti.reason, sizeof(rls_cupti.reason), format, arguments);
  va_end(arguments);
}

void rls_cupti_say_more(const char* format, ...) {
  const size_t length = strlen(rls_cupti.reason);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(rls_cupti.reason + length, sizeof(rls_cupti.reason) - length, format, arguments);
  va_end(arguments);
}

void rls_cupti_failed(const char* call, cupti_result code) {
  const char* name = NULL;
  const char* meaning = NULL;
  for (size_t i = 0; i < sizeof(kErrors) / sizeof(*kErrors); ++i) {
    if (kErrors[i].code != code) continue;
    name = kErrors[i].name;
    meaning = kErrors[i].meaning;
  }
  if (name == NULL) name = name_of(code);
  const char* file = strrchr(rls_cupti.library, '/');
  file = file != NULL ? file + 1 : rls_cupti.library;
  rls_cupti.code = code;
  rls_cupti_say("%s -> %u %s (%s api %u)%s%s", call, code, name, file, rls_cupti.version,
                meaning != NULL ? ": " : "", meaning != NULL ? meaning : "");
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

void rls_cupti_tell_off(struct rls_shim_slot* slot, const char* reason) {
  struct rls_shim_gpu_status record = {
      .kind = RLS_SHIM_GPU_STATUS,
      .state = RLS_SHIM_GPU_OFF,
      .ts_ns = rls_now_ns(),
      .is_late = true,
  };
  rls_cupti_tell_text(slot, &record.reason, reason);
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
  };
  rls_cupti_tell_text(slot, &record.reason, rls_cupti.reason);
  rls_cupti_tell_text(slot, &record.library, rls_cupti.library);
  rls_append(slot, &record);
}
