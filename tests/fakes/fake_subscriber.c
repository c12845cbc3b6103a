// The fake CUPTI: who subscribes to it, and its numbers of contexts and streams.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"
#include "fake_cupti.h"

static const struct fake_listener listener = {.heard = fake_heard, .now = fake_now};

void* fake_driver_symbol(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver != NULL ? dlsym(driver, name) : NULL;
}

bool fake_has_driver(void) { return fake_driver_symbol("fakecuda_listen") != NULL; }

int fake_no_driver(void) { return fake_cupti.api < 130000 ? CUPTI_NOT_INITIALIZED : CUPTI_UNKNOWN; }

void fake_listen(bool listens) {
  void (*set)(const struct fake_listener*);
  *(void**)&set = fake_driver_symbol("fakecuda_listen");
  set(listens ? &listener : NULL);
}

FAKE_EXPORT int cuptiSubscribe(void** subscriber, void* callback, void* data) {
  (void)callback, (void)data;
  INJECT(0);
  if (fake_cupti.is_subscribed) return CUPTI_MULTIPLE_SUBSCRIBERS;
  fake_cupti.is_subscribed = true;
  *subscriber = &fake_cupti;
  fake_listen(true);
  return CUPTI_OK;
}

#if FAKECUPTI_BUILD >= 130000
// FAKECUPTI_HOLDER: who has subscribed already; none: whoever had is gone.
FAKE_EXPORT int cuptiSubscribe_v2(void** subscriber, void* callback, void* data,
                                  struct fake_subscriber_params* params) {
  (void)callback, (void)data;
  INJECT(0);
  if (params != NULL && params->struct_bytes < sizeof *params) return CUPTI_INVALID_PARAMETER;
  const char* holder = getenv("FAKECUPTI_HOLDER");
  if (holder == NULL) {
    fake_cupti.is_subscribed = true;
    *subscriber = &fake_cupti;
    return CUPTI_OK;
  }
  if (params != NULL && params->old_name != NULL)
    strncpy(params->old_name, holder, params->old_bytes);
  return CUPTI_MULTIPLE_SUBSCRIBERS;
}
#endif

FAKE_EXPORT int cuptiUnsubscribe(void* subscriber) {
  if (fake_cupti.api < 130401 && subscriber != &fake_cupti) return CUPTI_INVALID_PARAMETER;
  INJECT(0);
  fake_cupti.is_subscribed = false;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiFinalize(void) {
  INJECT_ALWAYS(0);
  if (fake_has_driver()) fake_listen(false);
  fake_cupti.is_subscribed = false;
  fake_cupti.enabled = 0;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiGetContextId(const struct fake_context* context, uint32_t* id) {
  INJECT(0);
  if (context == NULL) return CUPTI_INVALID_CONTEXT;
  *id = context->id;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiGetDeviceId(const struct fake_context* context, uint32_t* id) {
  INJECT(0);
  if (context == NULL) return CUPTI_INVALID_CONTEXT;
  *id = context->device;
  return CUPTI_OK;
}

FAKE_EXPORT int cuptiGetStreamIdEx(const struct fake_context* context,
                                   const struct fake_stream* stream, uint8_t per_thread,
                                   uint32_t* id) {
  INJECT(per_thread);
  if (stream == NULL && context == NULL) return CUPTI_INVALID_STREAM;
  if (stream != NULL && context != NULL && stream->context != context) return CUPTI_INVALID_STREAM;
  *id = stream != NULL ? stream->id : context->null_stream.id;
  return CUPTI_OK;
}
