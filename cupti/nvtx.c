// The handlers of NVTX calls. Push and pop neither lock, allocate nor make a system call.
#include "nvtx.h"

#include <stdlib.h>
#include <string.h>

#include "ring.h"
#include "shim.h"

// What NVTX's header documents for a tool that does not keep the stack: any negative number.
#define NO_LEVEL (-1)

struct message {
  uint64_t hash;  // 0: none
  uint32_t length;
  const char* text;
  char narrowed[RLS_SHIM_MAX_TEXT + 1];  // only where the text had to be converted
};

struct event {
  const struct rls_text* domain;  // NULL: the default one
  uint32_t category;
  uint32_t color;
  uint64_t payload;
  uint8_t payload_type;
};

static uint64_t last_range_id;

static uint64_t domain_hash(const struct rls_text* domain) { return domain ? domain->hash : 0; }

// Enters the shim: the slot of the thread, or NULL if nothing can be recorded. Ends with done().
static struct rls_shim_slot* begin(void) {
  struct rls_shim_slot* slot = rls_own_slot();
  if (slot == NULL) return NULL;
  if (rls_thread.busy) {
    rls_count(slot, &slot->interrupted);
    return NULL;
  }
  rls_thread.busy = true;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return slot;
}

static void done(void) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  rls_thread.busy = false;
}

static void set_ascii(struct message* message, const char* text) {
  message->hash = 0;
  if (text == NULL) return;
  message->text = text;
  message->hash = rls_hash(text, &message->length);
}

static void set_wide(struct message* message, const wchar_t* text) {
  message->hash = 0;
  if (text == NULL) return;
  rls_narrow(text, message->narrowed, sizeof(message->narrowed));
  set_ascii(message, message->narrowed);
}

static void set_message(struct message* message, const struct nvtx_attributes* attributes) {
  const struct rls_text* text = attributes->message.registered;
  message->hash = 0;
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

static void set_payload(struct event* event, const struct nvtx_attributes* attributes) {
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

static struct event event_of(const struct rls_text* domain,
                             const struct nvtx_attributes* attributes) {
  struct event event = {.domain = domain};
  event.category = attributes->category;
  event.color = attributes->color_type != 0 ? attributes->color : 0;
  set_payload(&event, attributes);
  return event;
}

// Texts before what bears them, so that a ring read in order explains itself.
static void tell(struct rls_shim_slot* slot, const struct event* event,
                 const struct message* message) {
  if (message->hash != 0) rls_tell_name(slot, message->hash, message->text, message->length);
  if (event->domain != NULL)
    rls_tell_name(slot, event->domain->hash, event->domain->text, event->domain->length);
  if (event->category != 0) rls_tell_category(slot, domain_hash(event->domain), event->category);
}

static int push(const struct event* event, const struct message* message) {
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return NO_LEVEL;
  const uint32_t depth = slot->depth;
  if (depth < RLS_SHIM_MAX_DEPTH) {
    const bool is_read = rls_reader() != 0;
    if (is_read) tell(slot, event, message);
    slot->open[depth] = (struct rls_shim_open){
        .name = message->hash,
        .domain = domain_hash(event->domain),
        .payload = event->payload,
        .category = event->category,
        .color = event->color,
        .payload_type = event->payload_type,
    };
    // Last, so that our own work is not in the range.
    slot->open[depth].start_ns = is_read ? rls_now_ns() : 0;
  } else {
    rls_count(slot, &slot->too_deep);
  }
  __atomic_store_n(&slot->depth, depth + 1, __ATOMIC_RELEASE);
  done();
  return (int)depth;
}

// The entry opened last in a domain: normally the top. -1: none is open.
static int find_open(const struct rls_shim_slot* slot, uint64_t domain) {
  for (int index = (int)slot->depth - 1; index >= 0; --index)
    if (slot->open[index].domain == domain) return index;
  return -1;
}

static void close_range(struct rls_shim_slot* slot, uint32_t index, uint64_t end_ns) {
  struct rls_shim_open* entry = &slot->open[index];
  if (end_ns != 0) {
    struct rls_shim_event record = rls_range_record(RLS_SHIM_RANGE, entry, index, end_ns);
    if (slot->depth == 1) record.flags = RLS_SHIM_LAST;
    rls_append(slot, &record);
  }
  // Ranges of other domains may have been opened since and be open still.
  const uint32_t above = slot->depth - index - 1;
  if (above > 0) memmove(entry, entry + 1, above * sizeof(*entry));
  __atomic_store_n(&slot->depth, slot->depth - 1, __ATOMIC_RELEASE);
}

static int pop(uint64_t domain) {
  // Told as open when the thread gave its slot back.
  if (rls_thread.is_leaving && rls_thread.slot == NULL) return NO_LEVEL;
  // First, so that our own work is not in the range.
  const uint64_t now_ns = rls_process.header != NULL && rls_reader() != 0 ? rls_now_ns() : 0;
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return NO_LEVEL;
  int level = NO_LEVEL;
  if (slot->depth > RLS_SHIM_MAX_DEPTH) {
    level = (int)slot->depth - 1;
    __atomic_store_n(&slot->depth, slot->depth - 1, __ATOMIC_RELEASE);
  } else if ((level = find_open(slot, domain)) >= 0) {
    close_range(slot, (uint32_t)level, now_ns);
  } else if (now_ns != 0) {
    rls_count(slot, &slot->unbalanced_pops);
  }
  done();
  return level;
}

static void append_event(uint16_t kind, const struct event* event, const struct message* message,
                         uint64_t id) {
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return;
  if (rls_reader() != 0) {
    tell(slot, event, message);
    const struct rls_shim_event record = {
        .kind = kind,
        .payload_type = event->payload_type,
        .category = event->category,
        .start_ns = rls_now_ns(),
        .name = message->hash,
        .domain = domain_hash(event->domain),
        .payload = event->payload,
        .color = event->color,
        .id = id,
    };
    rls_append(slot, &record);
  }
  done();
}

static uint64_t start(const struct event* event, const struct message* message) {
  const uint64_t id = __atomic_add_fetch(&last_range_id, 1, __ATOMIC_RELAXED);
  append_event(RLS_SHIM_START, event, message, id);
  return id;
}

static void end(uint64_t id) {
  const uint64_t now_ns = rls_now_ns();
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return;
  if (rls_reader() != 0) {
    const struct rls_shim_event record = {.kind = RLS_SHIM_END, .end_ns = now_ns, .id = id};
    rls_append(slot, &record);
  }
  done();
}

// From here on: the functions as NVTX declares them.

static const struct event kPlain;

static void mark_ex(const struct nvtx_attributes* attributes) {
  struct message message;
  set_message(&message, attributes);
  const struct event event = event_of(NULL, attributes);
  append_event(RLS_SHIM_MARK, &event, &message, 0);
}

static void mark_a(const char* text) {
  struct message message;
  set_ascii(&message, text);
  append_event(RLS_SHIM_MARK, &kPlain, &message, 0);
}

static void mark_w(const wchar_t* text) {
  struct message message;
  set_wide(&message, text);
  append_event(RLS_SHIM_MARK, &kPlain, &message, 0);
}

static uint64_t range_start_ex(const struct nvtx_attributes* attributes) {
  struct message message;
  set_message(&message, attributes);
  const struct event event = event_of(NULL, attributes);
  return start(&event, &message);
}

static uint64_t range_start_a(const char* text) {
  struct message message;
  set_ascii(&message, text);
  return start(&kPlain, &message);
}

static uint64_t range_start_w(const wchar_t* text) {
  struct message message;
  set_wide(&message, text);
  return start(&kPlain, &message);
}

static void range_end(uint64_t id) { end(id); }

static int range_push_ex(const struct nvtx_attributes* attributes) {
  struct message message;
  set_message(&message, attributes);
  const struct event event = event_of(NULL, attributes);
  return push(&event, &message);
}

static int range_push_a(const char* text) {
  struct message message;
  set_ascii(&message, text);
  return push(&kPlain, &message);
}

static int range_push_w(const wchar_t* text) {
  struct message message;
  set_wide(&message, text);
  return push(&kPlain, &message);
}

static int range_pop(void) { return pop(0); }

static void name_category_a(uint32_t category, const char* name) {
  if (name != NULL) rls_name_category(0, category, name);
}

static void name_category_w(uint32_t category, const wchar_t* name) {
  struct message message;
  set_wide(&message, name);
  if (message.hash != 0) rls_name_category(0, category, message.text);
}

static void domain_mark_ex(void* domain, const struct nvtx_attributes* attributes) {
  struct message message;
  set_message(&message, attributes);
  const struct event event = event_of(domain, attributes);
  append_event(RLS_SHIM_MARK, &event, &message, 0);
}

static uint64_t domain_range_start_ex(void* domain, const struct nvtx_attributes* attributes) {
  struct message message;
  set_message(&message, attributes);
  const struct event event = event_of(domain, attributes);
  return start(&event, &message);
}

static void domain_range_end(void* domain, uint64_t id) {
  (void)domain;
  end(id);
}

static int domain_range_push_ex(void* domain, const struct nvtx_attributes* attributes) {
  struct message message;
  set_message(&message, attributes);
  const struct event event = event_of(domain, attributes);
  return push(&event, &message);
}

static int domain_range_pop(void* domain) { return pop(domain_hash(domain)); }

static void domain_name_category_a(void* domain, uint32_t category, const char* name) {
  if (name != NULL) rls_name_category(domain_hash(domain), category, name);
}

static void domain_name_category_w(void* domain, uint32_t category, const wchar_t* name) {
  struct message message;
  set_wide(&message, name);
  if (message.hash != 0) rls_name_category(domain_hash(domain), category, message.text);
}

static void* keep_a(const char* text) { return text != NULL ? rls_keep_text(text) : NULL; }

static void* keep_w(const wchar_t* text) {
  struct message message;
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
  return NULL;
}

void rls_nvtx_fill(unsigned module, nvtx_table table, unsigned size) {
  for (unsigned id = 0; id < size; ++id) {
    const nvtx_function handler = rls_nvtx_handler(module, id);
    if (handler != NULL && table[id] != NULL) *table[id] = handler;
  }
}
