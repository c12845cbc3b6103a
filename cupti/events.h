// What happens in a thread: ranges, start/end ranges, marks. Push and pop neither lock, allocate
// nor make a system call.
#ifndef RLS_EVENTS_H
#define RLS_EVENTS_H

#include <stdint.h>

#include "names.h"
#include "records.h"

// The negative number that NVTX's header documents for a tool that does not keep the stack.
#define RLS_NO_LEVEL (-1)

struct rls_message {
  uint64_t hash;  // 0: none
  uint32_t length;
  const char* text;
  char narrowed[RLS_SHIM_MAX_TEXT + 5];  // only where the text had to be converted
};

struct rls_event {
  const struct rls_text* domain;  // NULL: the default one
  uint32_t category;
  uint32_t color;
  uint64_t payload;
  uint8_t payload_type;
};

static inline uint64_t rls_domain_hash(const struct rls_text* domain) {
  return domain != NULL ? domain->hash : 0;
}

// Push and pop return how many ranges of the thread are around, or RLS_NO_LEVEL.
int rls_push(const struct rls_event* event, const struct rls_message* message);
int rls_pop(uint64_t domain);
// As of a time that has passed, but not before the range began.
int rls_pop_at(uint64_t domain, uint64_t end_ns);
uint64_t rls_start(const struct rls_event* event, const struct rls_message* message);
void rls_end(uint64_t id);
void rls_mark(const struct rls_event* event, const struct rls_message* message);

// Gives the range of a domain that the thread opened last another payload than at its push.
void rls_set_payload(uint64_t domain, uint64_t payload, enum rls_shim_payload type);

#endif  // RLS_EVENTS_H
