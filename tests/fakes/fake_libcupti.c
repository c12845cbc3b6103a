// A CUPTI without a GPU (libcupti.so.N), for tests: the calls of its activity API.
//
// It tells what the fake driver did in records as a chosen release lays them out (FAKECUPTI_API),
// in the client's clock, or its own where FAKECUPTI_CLOCK=refuse or ignore says so.
#include <stdlib.h>
#include <string.h>

#include "fake_cupti.h"

struct fake_cupti fake_cupti = {.lock = PTHREAD_MUTEX_INITIALIZER, .api = FAKECUPTI_BUILD};

static const struct fake_name names[] = {FAKE_CALLS(FAKE_NAME)};

__attribute__((constructor)) static void set_api(void) {
  const char* api = getenv("FAKECUPTI_API");
  if (api != NULL && api[0] != '\0') fake_cupti.api = (uint32_t)strtoul(api, NULL, 10);
}

FAKE_EXPORT int cuptiGetVersion(uint32_t* version) {
  INJECT_ALWAYS(0);
  *version = fake_cupti.api;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivityRegisterCallbacks(fake_request request, fake_complete complete) {
  INJECT_ALWAYS(0);
  if (request == NULL || complete == NULL) return CUPTI_INVALID_PARAMETER;
  pthread_mutex_lock(&fake_cupti.lock);
  fake_cupti.request = request;
  fake_cupti.complete = complete;
  pthread_mutex_unlock(&fake_cupti.lock);
  return CUPTI_OK;
}

static void set_kind(uint32_t kind, bool enable) {
  pthread_mutex_lock(&fake_cupti.lock);
  fake_cupti.enabled &= ~(1ULL << kind);
  fake_cupti.enabled |= (uint64_t)enable << kind;
  const int domain = kind == FAKE_DRIVER_CALL ? FAKE_DRIVER : FAKE_RUNTIME;
  if (kind == FAKE_DRIVER_CALL || kind == FAKE_RUNTIME_CALL)
    memset(fake_cupti.calls[domain], enable, sizeof fake_cupti.calls[domain]);
  pthread_mutex_unlock(&fake_cupti.lock);
  fake_listen(true);
}

FAKE_EXPORT int cuptiActivityEnable(uint32_t kind) {
  INJECT(kind);
  if (fake_record_size(fake_cupti.api, kind) == 0) return CUPTI_INVALID_KIND;
  // Kernels one by one, or as they run: not both.
  if (kind == 3 && fake_cupti.enabled >> FAKE_KERNEL & 1) return CUPTI_NOT_COMPATIBLE;
  set_kind(kind, true);
  return CUPTI_OK;
}

// For who comes late: what there is already is told too.
FAKE_EXPORT int cuptiActivityEnableAndDump(uint32_t kind) {
  INJECT(kind);
  if (fake_record_size(fake_cupti.api, kind) == 0) return CUPTI_INVALID_KIND;
  set_kind(kind, true);
  void (*tell)(uint32_t);
  *(void**)&tell = fake_driver_symbol("fakecuda_tell_existing");
  tell(kind);
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivityDisable(uint32_t kind) {
  INJECT(kind);
  if (fake_record_size(fake_cupti.api, kind) == 0) return CUPTI_INVALID_KIND;
  set_kind(kind, false);
  return CUPTI_OK;
}

#if FAKECUPTI_BUILD >= 26
// Once CUDA has started, a call that is enabled has no records, and no error says so: as on an H200
// with CUDA 13.0.
static bool comes_too_late(void) {
  int (*is_injecting)(void);
  *(void**)&is_injecting = fake_driver_symbol("fakecuda_is_injecting");
  return is_injecting == NULL || !is_injecting();
}

static int set_call(int domain, uint32_t cbid, uint8_t enable) {
  if (cbid >= FAKE_FUNCTIONS) return CUPTI_INVALID_PARAMETER;
  if (enable && comes_too_late()) return CUPTI_OK;
  pthread_mutex_lock(&fake_cupti.lock);
  fake_cupti.calls[domain][cbid] = enable != 0;
  pthread_mutex_unlock(&fake_cupti.lock);
  fake_listen(true);
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable) {
  INJECT(cbid);
  return set_call(FAKE_RUNTIME, cbid, enable);
}

FAKE_EXPORT int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable) {
  INJECT(cbid);
  return set_call(FAKE_DRIVER, cbid, enable);
}
#endif

FAKE_EXPORT int cuptiActivityFlushAll(uint32_t flag) {
  INJECT(flag);
  if (fake_cupti.request == NULL) return CUPTI_INVALID_OPERATION;
  fake_flush(flag & 1);
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivityFlushPeriod(uint32_t milliseconds) {
  INJECT(milliseconds);
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivitySetAttribute(int attribute, const size_t* bytes, const void* value) {
  (void)bytes, (void)value;
  INJECT(attribute);
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivityGetNumDroppedRecords(void* context, uint32_t stream, size_t* count) {
  (void)context, (void)stream;
  INJECT_ALWAYS(0);
  if (fake_cupti.api < 26 && !fake_has_driver()) return fake_no_driver();
  *count = fake_take_dropped();
  return CUPTI_OK;
}

// As the real one: the record behind *record, by the sizes of its own version.
FAKE_EXPORT int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  const int injected = fake_injected_often(__func__, 0);
  if (injected != CUPTI_OK) return injected;
  uint32_t kind = 0;
  uint8_t* next = *record == NULL ? buffer : *record;
  if (*record != NULL) {
    memcpy(&kind, *record, sizeof kind);
    next += fake_record_size(fake_cupti.api, kind);
  }
  if (next >= buffer + valid) return CUPTI_END;
  memcpy(&kind, next, sizeof kind);
  const size_t bytes = fake_record_size(fake_cupti.api, kind);
  if (bytes == 0) return fake_cupti.api < 22 ? CUPTI_UNKNOWN : CUPTI_INVALID_KIND;
  *record = next;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*timestamp)(void)) {
  INJECT(0);
  const char* mode = getenv("FAKECUPTI_CLOCK");
  if (mode != NULL && strcmp(mode, "refuse") == 0) return CUPTI_NOT_COMPATIBLE;
  if (timestamp == NULL) return CUPTI_INVALID_PARAMETER;
  fake_cupti.ignores_timestamp = mode != NULL && strcmp(mode, "ignore") == 0;
  fake_set_timestamp(timestamp);
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiGetTimestamp(uint64_t* timestamp) {
  INJECT_ALWAYS(0);
  *timestamp = fake_now();
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiSetThreadIdType(uint32_t type) {
  INJECT(type);
  fake_cupti.has_system_tids = type == 1;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiGetThreadIdType(uint32_t* type) {
  INJECT(0);
  *type = fake_cupti.has_system_tids;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiGetCallbackName(int domain, uint32_t cbid, const char** name) {
  INJECT_ALWAYS(cbid);
  *name = NULL;
  for (size_t index = 0; index < sizeof names / sizeof names[0]; ++index)
    if ((int)names[index].domain == domain && names[index].function == cbid)
      *name = names[index].text;
  return *name != NULL ? CUPTI_OK : CUPTI_INVALID_PARAMETER;
}

// For tests: an event as a record of a version, and how long that is. tid: of the caller.
FAKE_EXPORT size_t fakecupti_record(uint32_t api, const struct fake_event* event, uint64_t tid,
                                    uint8_t* to) {
  return fake_write_record(api, event, tid, to);
}
