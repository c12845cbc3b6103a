// The fake driver: what it counted itself, which recordings are held to.
#include <inttypes.h>
#include <stdio.h>

#include "fake_cuda.h"

static const struct fake_name names[] = {FAKE_CALLS(FAKE_NAME)};
static uint64_t calls[3][FAKE_FUNCTIONS];
static uint64_t counts[FAKE_KINDS];
static uint64_t times_ns[FAKE_KINDS];
static uint64_t bytes[FAKE_KINDS];
// Of what graphs did, which is in the above too.
static uint64_t node_counts[FAKE_KINDS];
static uint64_t node_times_ns[FAKE_KINDS];

void fake_count_call(const struct fake_call* call) {
  __atomic_add_fetch(&calls[call->domain][call->function], 1, __ATOMIC_RELAXED);
}

void fake_count_event(const struct fake_event* event) {
  const uint64_t took_ns = event->end_ns > event->start_ns ? event->end_ns - event->start_ns : 0;
  __atomic_add_fetch(&counts[event->kind], 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&times_ns[event->kind], took_ns, __ATOMIC_RELAXED);
  __atomic_add_fetch(&bytes[event->kind], event->bytes, __ATOMIC_RELAXED);
  if (event->graph == 0 || event->kind == FAKE_GRAPH) return;
  __atomic_add_fetch(&node_counts[event->kind], 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&node_times_ns[event->kind], took_ns, __ATOMIC_RELAXED);
}

// {"calls": {"cuInit": 1, ...}, "work": {"10": {"count": ...}, ...}}, by CUPTI's kinds.
const char* fakecuda_truth(void) {
  static char text[8192];
  size_t used = (size_t)snprintf(text, sizeof text, "{\"calls\": {");
  const char* comma = "";
  for (size_t index = 0; index < sizeof names / sizeof names[0]; ++index) {
    const uint64_t count = calls[names[index].domain][names[index].function];
    if (count == 0) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\": %" PRIu64, comma,
                             names[index].text, count);
    comma = ", ";
  }
  used += (size_t)snprintf(text + used, sizeof text - used, "}, \"work\": {");
  comma = "";
  for (uint32_t kind = 0; kind < FAKE_KINDS; ++kind) {
    if (counts[kind] == 0) continue;
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "%s\"%u\": {\"count\": %" PRIu64 ", \"ns\": %" PRIu64
                             ", \"bytes\": %" PRIu64 ", \"node_count\": %" PRIu64
                             ", \"node_ns\": %" PRIu64 "}",
                             comma, kind, counts[kind], times_ns[kind], bytes[kind],
                             node_counts[kind], node_times_ns[kind]);
    comma = ", ";
  }
  snprintf(text + used, sizeof text - used, "}}");
  return text;
}
