// The handlers of NVTX calls: arguments as NVTX passes them into events of ours.
#include "nvtx.h"

#include <string.h>

#include "events.h"
#include "names.h"
#include "nvtx_cuda.h"

static void set_ascii(struct rls_message* message, const char* text) {
  message->hash = 0;
  if (text == NULL) return;
  message->text = text;
  message->hash = rls_hash(text, &message->length);
}

static void set_wide(struct rls_message* message, const wchar_t* text) {
  message->hash = 0;
  if (text == NULL) return;
  rls_narrow(text, message->narrowed, sizeof(message->narrowed));
  set_ascii(message, message->narrowed);
}

static void set_message(struct rls_message* message, const struct nvtx_attributes* attributes) {
  message->hash = 0;
  if (attributes == NULL) return;  // without a tool that does no harm either
  const struct rls_text* text = attributes->message.registered;
  switch (attributes->message_type) {
    case NVTX_MESSAGE_ASCII:
      set_ascii(message, attributes->message.ascii);
      return;
    case NVTX_MESSAGE_WIDE:
      set_wide(message, attributes->message.wide);
      return;
    case NVTX_MESSAGE_REGISTERED:
      if (text == NULL) return;  // registered before there was a tool
      message->hash = text->hash;
      message->length = text->length;
      message->text = text->text;
      return;
    default:
      return;
  }
}

static void set_payload(struct rls_event* event, const struct nvtx_attributes* attributes) {
  double real = 0;
  event->payload_type = RLS_SHIM_SIGNED;
  switch (attributes->payload_type) {
    case NVTX_PAYLOAD_U64:
      event->payload_type = RLS_SHIM_UNSIGNED;
      event->payload = attributes->payload.u64;
      return;
    case NVTX_PAYLOAD_I64:
      event->payload = (uint64_t)attributes->payload.i64;
      return;
    case NVTX_PAYLOAD_U32:
      event->payload = attributes->payload.u32;
      return;
    case NVTX_PAYLOAD_I32:
      event->payload = (uint64_t)(int64_t)attributes->payload.i32;
      return;
    case NVTX_PAYLOAD_DOUBLE:
      real = attributes->payload.f64;
      break;
    case NVTX_PAYLOAD_FLOAT:
      real = (double)attributes->payload.f32;
      break;
    default:  // none, or an extension that needs a schema
      event->payload_type = RLS_SHIM_NO_PAYLOAD;
      return;
  }
  event->payload_type = RLS_SHIM_DOUBLE;
  memcpy(&event->payload, &real, sizeof(real));
}

static struct rls_event event_of(const struct rls_text* domain,
                                 const struct nvtx_attributes* attributes) {
  struct rls_event event = {.domain = domain};
  if (attributes == NULL) return event;
  event.category = attributes->category;
  event.color = attributes->color_type != 0 ? attributes->color : 0;
  set_payload(&event, attributes);
  return event;
}

// From here on: the functions as NVTX declares them.

static const struct rls_event kPlain;

static void mark_ex(const struct nvtx_attributes* attributes) {
  struct rls_message message;
  set_message(&message, attributes);
  const struct rls_event event = event_of(NULL, attributes);
  rls_mark(&event, &message);
}

static void mark_a(const char* text) {
  struct rls_message message;
  set_ascii(&message, text);
  rls_mark(&kPlain, &message);
}

static void mark_w(const wchar_t* text) {
  struct rls_message message;
  set_wide(&message, text);
  rls_mark(&kPlain, &message);
}

static uint64_t range_start_ex(const struct nvtx_attributes* attributes) {
  struct rls_message message;
  set_message(&message, attributes);
  const struct rls_event event = event_of(NULL, attributes);
  return rls_start(&event, &message);
}

static uint64_t range_start_a(const char* text) {
  struct rls_message message;
  set_ascii(&message, text);
  return rls_start(&kPlain, &message);
}

static uint64_t range_start_w(const wchar_t* text) {
  struct rls_message message;
  set_wide(&message, text);
  return rls_start(&kPlain, &message);
}

static void range_end(uint64_t id) { rls_end(id); }

static int range_push_ex(const struct nvtx_attributes* attributes) {
  struct rls_message message;
  set_message(&message, attributes);
  const struct rls_event event = event_of(NULL, attributes);
  return rls_push(&event, &message);
}

static int range_push_a(const char* text) {
  struct rls_message message;
  set_ascii(&message, text);
  return rls_push(&kPlain, &message);
}

static int range_push_w(const wchar_t* text) {
  struct rls_message message;
  set_wide(&message, text);
  return rls_push(&kPlain, &message);
}

static int range_pop(void) { return rls_pop(0); }

static void name_category_a(uint32_t category, const char* name) {
  if (name != NULL) rls_name_category(0, category, name);
}

static void name_category_w(uint32_t category, const wchar_t* name) {
  struct rls_message message;
  set_wide(&message, name);
  if (message.hash != 0) rls_name_category(0, category, message.text);
}

static void domain_mark_ex(void* domain, const struct nvtx_attributes* attributes) {
  struct rls_message message;
  set_message(&message, attributes);
  const struct rls_event event = event_of(domain, attributes);
  rls_mark(&event, &message);
}

static uint64_t domain_range_start_ex(void* domain, const struct nvtx_attributes* attributes) {
  struct rls_message message;
  set_message(&message, attributes);
  const struct rls_event event = event_of(domain, attributes);
  return rls_start(&event, &message);
}

static void domain_range_end(void* domain, uint64_t id) {
  (void)domain;
  rls_end(id);
}

static int domain_range_push_ex(void* domain, const struct nvtx_attributes* attributes) {
  struct rls_message message;
  set_message(&message, attributes);
  const struct rls_event event = event_of(domain, attributes);
  return rls_push(&event, &message);
}

static int domain_range_pop(void* domain) { return rls_pop(rls_domain_hash(domain)); }

static void domain_name_category_a(void* domain, uint32_t category, const char* name) {
  if (name != NULL) rls_name_category(rls_domain_hash(domain), category, name);
}

static void domain_name_category_w(void* domain, uint32_t category, const wchar_t* name) {
  struct rls_message message;
  set_wide(&message, name);
  if (message.hash != 0) rls_name_category(rls_domain_hash(domain), category, message.text);
}

static void* keep_a(const char* text) { return text != NULL ? rls_keep_text(text) : NULL; }

static void* keep_w(const wchar_t* text) {
  struct rls_message message;
  set_wide(&message, text);
  return message.hash != 0 ? rls_keep_text(message.text) : NULL;
}

static void* domain_register_string_a(void* domain, const char* text) {
  (void)domain;
  return keep_a(text);
}

static void* domain_register_string_w(void* domain, const wchar_t* text) {
  (void)domain;
  return keep_w(text);
}

// Domains are never freed: ranges of one that was destroyed may still be open.
static void domain_destroy(void* domain) { (void)domain; }

static void initialize(const void* reserved) { (void)reserved; }

static const nvtx_function kCore[NVTX_CORE_SIZE] = {
    [NVTX_MARK_EX] = (nvtx_function)mark_ex,
    [NVTX_MARK_A] = (nvtx_function)mark_a,
    [NVTX_MARK_W] = (nvtx_function)mark_w,
    [NVTX_RANGE_START_EX] = (nvtx_function)range_start_ex,
    [NVTX_RANGE_START_A] = (nvtx_function)range_start_a,
    [NVTX_RANGE_START_W] = (nvtx_function)range_start_w,
    [NVTX_RANGE_END] = (nvtx_function)range_end,
    [NVTX_RANGE_PUSH_EX] = (nvtx_function)range_push_ex,
    [NVTX_RANGE_PUSH_A] = (nvtx_function)range_push_a,
    [NVTX_RANGE_PUSH_W] = (nvtx_function)range_push_w,
    [NVTX_RANGE_POP] = (nvtx_function)range_pop,
    [NVTX_NAME_CATEGORY_A] = (nvtx_function)name_category_a,
    [NVTX_NAME_CATEGORY_W] = (nvtx_function)name_category_w,
};

static const nvtx_function kCore2[NVTX_CORE2_SIZE] = {
    [NVTX_DOMAIN_MARK_EX] = (nvtx_function)domain_mark_ex,
    [NVTX_DOMAIN_RANGE_START_EX] = (nvtx_function)domain_range_start_ex,
    [NVTX_DOMAIN_RANGE_END] = (nvtx_function)domain_range_end,
    [NVTX_DOMAIN_RANGE_PUSH_EX] = (nvtx_function)domain_range_push_ex,
    [NVTX_DOMAIN_RANGE_POP] = (nvtx_function)domain_range_pop,
    [NVTX_DOMAIN_NAME_CATEGORY_A] = (nvtx_function)domain_name_category_a,
    [NVTX_DOMAIN_NAME_CATEGORY_W] = (nvtx_function)domain_name_category_w,
    [NVTX_DOMAIN_REGISTER_STRING_A] = (nvtx_function)domain_register_string_a,
    [NVTX_DOMAIN_REGISTER_STRING_W] = (nvtx_function)domain_register_string_w,
    [NVTX_DOMAIN_CREATE_A] = (nvtx_function)keep_a,
    [NVTX_DOMAIN_CREATE_W] = (nvtx_function)keep_w,
    [NVTX_DOMAIN_DESTROY] = (nvtx_function)domain_destroy,
    [NVTX_INITIALIZE] = (nvtx_function)initialize,
};

nvtx_function rls_nvtx_handler(unsigned module, unsigned id) {
  if (module == NVTX_MODULE_CORE && id < NVTX_CORE_SIZE) return kCore[id];
  if (module == NVTX_MODULE_CORE2 && id < NVTX_CORE2_SIZE) return kCore2[id];
  return rls_nvtx_cuda_handler(module, id);
}

void rls_nvtx_fill(unsigned module, nvtx_table table, unsigned size) {
  for (unsigned id = 0; id < size; ++id) {
    const nvtx_function handler = rls_nvtx_handler(module, id);
    if (handler != NULL && table[id] != NULL) *table[id] = handler;
  }
}
