// Writing into the ring of a slot: the calling thread is its only writer.
#ifndef RLS_RING_H
#define RLS_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "records.h"
#include "shim.h"

static inline char* rls_ring_data(struct rls_shim_slot* slot) {
  return (char*)slot + RLS_SHIM_CONTROL_BYTES;
}

static inline void* rls_cell(struct rls_shim_slot* slot, uint64_t position) {
  return rls_ring_data(slot) + (position & (RLS_SHIM_RING_BYTES - 1));
}

// The ring of the calling thread has been full since it got it.
extern __thread bool rls_ring_is_unknown;

// Writes whose ring it is from here on; false: there is no room. Then nothing else is written
// before, or it would be taken for that of the thread which had the ring before.
bool rls_introduce(struct rls_shim_slot* slot);

// Whether `bytes` more fit.
static inline bool rls_has_room(struct rls_shim_slot* slot, uint64_t bytes) {
  if (RLS_LIKELY(slot->head + bytes - slot->tail_seen <= RLS_SHIM_RING_BYTES)) return true;
  slot->tail_seen = __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE);
  if (rls_ring_is_unknown && !rls_introduce(slot)) return false;
  return slot->head + bytes - slot->tail_seen <= RLS_SHIM_RING_BYTES;
}

static inline void rls_publish(struct rls_shim_slot* slot, uint64_t bytes) {
  __atomic_store_n(&slot->head, slot->head + bytes, __ATOMIC_RELEASE);
}

// Counters have one writer; the collector reads them at any time.
static inline void rls_count(struct rls_shim_slot* slot, uint64_t* counter) {
  __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
  if (slot->first_loss_ns == 0) slot->first_loss_ns = rls_now_ns();
}

// Appends one cell, or counts it as dropped.
static inline void rls_append(struct rls_shim_slot* slot, const void* cell) {
  if (!RLS_LIKELY(rls_has_room(slot, RLS_SHIM_CELL_BYTES))) {
    rls_count(slot, &slot->dropped_events);
    return;
  }
  memcpy(rls_cell(slot, slot->head), cell, RLS_SHIM_CELL_BYTES);
  rls_publish(slot, RLS_SHIM_CELL_BYTES);
}

static inline void rls_widen_gap(struct rls_shim_slot* slot, const struct rls_shim_event* range) {
  const uint64_t end_ns = range->end_ns != 0 ? range->end_ns : rls_now_ns();
  struct rls_shim_gap* gap = &slot->gap;
  if (gap->end_ns == 0 || range->start_ns < gap->start_ns)
    __atomic_store_n(&gap->start_ns, range->start_ns, __ATOMIC_RELAXED);
  if (end_ns > gap->end_ns) __atomic_store_n(&gap->end_ns, end_ns, __ATOMIC_RELEASE);
}

// Tells what was dropped before; false: there is no room for that and for a record behind it.
static inline bool rls_tell_gap(struct rls_shim_slot* slot) {
  if (!rls_has_room(slot, 2 * RLS_SHIM_CELL_BYTES)) return false;
  const struct rls_shim_event record = {
      .kind = RLS_SHIM_GAP, .start_ns = slot->gap.start_ns, .end_ns = slot->gap.end_ns};
  rls_append(slot, &record);
  __atomic_store_n(&slot->gap.end_ns, 0, __ATOMIC_RELEASE);
  return true;
}

// Appends a RANGE or OPEN, or notes the time of which it would have reported it.
static inline void rls_append_range(struct rls_shim_slot* slot,
                                    const struct rls_shim_event* range) {
  const bool may_follow = RLS_LIKELY(slot->gap.end_ns == 0) || rls_tell_gap(slot);
  if (RLS_LIKELY(may_follow && rls_has_room(slot, RLS_SHIM_CELL_BYTES))) {
    memcpy(rls_cell(slot, slot->head), range, RLS_SHIM_CELL_BYTES);
    rls_publish(slot, RLS_SHIM_CELL_BYTES);
    return;
  }
  rls_count(slot, &slot->dropped_events);
  rls_widen_gap(slot, range);
}

static inline struct rls_shim_event rls_range_record(uint16_t kind,
                                                     const struct rls_shim_open* open,
                                                     uint32_t depth, uint64_t end_ns) {
  return (struct rls_shim_event){
      .kind = kind,
      .depth = (uint8_t)depth,
      .payload_type = open->payload_type,
      .category = open->category,
      .start_ns = open->start_ns,
      .end_ns = end_ns,
      .name = open->name,
      .domain = open->domain,
      .payload = open->payload,
      .color = open->color,
  };
}

#endif  // RLS_RING_H
