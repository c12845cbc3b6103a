#include "events.h"

#include <string.h>

#include "process.h"
#include "ring.h"
#include "thread.h"

static uint64_t last_range_id;

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

// Texts before what bears them, so that a ring read in order explains itself.
static void tell(struct rls_shim_slot* slot, const struct rls_event* event,
                 const struct rls_message* message) {
  if (message->hash != 0) rls_tell_name(slot, message->hash, message->text, message->length);
  if (event->domain != NULL)
    rls_tell_name(slot, event->domain->hash, event->domain->text, event->domain->length);
  if (event->category != 0)
    rls_tell_category(slot, rls_domain_hash(event->domain), event->category);
}

int rls_push(const struct rls_event* event, const struct rls_message* message) {
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return RLS_NO_LEVEL;
  const uint32_t depth = slot->depth;
  if (depth < RLS_SHIM_MAX_DEPTH) {
    const bool is_read = rls_reader() != 0;
    if (is_read) tell(slot, event, message);
    slot->open[depth] = (struct rls_shim_open){
        .name = message->hash,
        .domain = rls_domain_hash(event->domain),
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
    rls_append_range(slot, &record);
  }
  // Ranges of other domains may have been opened since and be open still.
  const uint32_t above = slot->depth - index - 1;
  if (above > 0) memmove(entry, entry + 1, above * sizeof(*entry));
  __atomic_store_n(&slot->depth, slot->depth - 1, __ATOMIC_RELEASE);
}

// end_ns: 0: nobody reads.
static int pop_at(uint64_t domain, uint64_t end_ns) {
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return RLS_NO_LEVEL;
  int level = RLS_NO_LEVEL;
  if (slot->depth > RLS_SHIM_MAX_DEPTH) {
    level = (int)slot->depth - 1;
    __atomic_store_n(&slot->depth, slot->depth - 1, __ATOMIC_RELEASE);
  } else if ((level = find_open(slot, domain)) >= 0) {
    const uint64_t start_ns = slot->open[level].start_ns;
    close_range(slot, (uint32_t)level, end_ns == 0 || end_ns > start_ns ? end_ns : start_ns);
  } else if (end_ns != 0) {
    rls_count(slot, &slot->unbalanced_pops);
  }
  done();
  return level;
}

static bool is_read(void) { return rls_process.header != NULL && rls_reader() != 0; }

// Whether the ranges of the thread were reported as open when it gave its slot back.
static bool is_gone(void) { return rls_thread.is_leaving && rls_thread.slot == NULL; }

int rls_pop(uint64_t domain) {
  // The time first, so that our own work is not in the range.
  return is_gone() ? RLS_NO_LEVEL : pop_at(domain, is_read() ? rls_now_ns() : 0);
}

int rls_pop_at(uint64_t domain, uint64_t end_ns) {
  return is_gone() ? RLS_NO_LEVEL : pop_at(domain, is_read() ? end_ns : 0);
}

static void append_event(uint16_t kind, const struct rls_event* event,
                         const struct rls_message* message, uint64_t id) {
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
        .domain = rls_domain_hash(event->domain),
        .payload = event->payload,
        .color = event->color,
        .id = id,
    };
    rls_append(slot, &record);
  }
  done();
}

uint64_t rls_start(const struct rls_event* event, const struct rls_message* message) {
  const uint64_t id = __atomic_add_fetch(&last_range_id, 1, __ATOMIC_RELAXED);
  append_event(RLS_SHIM_START, event, message, id);
  return id;
}

void rls_end(uint64_t id) {
  const uint64_t now_ns = rls_now_ns();
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return;
  if (rls_reader() != 0) {
    const struct rls_shim_event record = {.kind = RLS_SHIM_END, .end_ns = now_ns, .id = id};
    rls_append(slot, &record);
  }
  done();
}

void rls_mark(const struct rls_event* event, const struct rls_message* message) {
  append_event(RLS_SHIM_MARK, event, message, 0);
}

void rls_set_payload(uint64_t domain, uint64_t payload, enum rls_shim_payload type) {
  struct rls_shim_slot* slot = begin();
  if (slot == NULL) return;
  const bool is_kept = slot->depth <= RLS_SHIM_MAX_DEPTH;
  const int level = is_kept ? find_open(slot, domain) : -1;
  if (level >= 0) {
    slot->open[level].payload = payload;
    slot->open[level].payload_type = (uint8_t)type;
  }
  done();
}
