// Whose ring it is, reported before anything else in it.
#include "ring.h"

__thread bool rls_ring_is_unknown;

bool rls_introduce(struct rls_shim_slot* slot) {
  rls_ring_is_unknown = false;
  if (!rls_has_room(slot, RLS_SHIM_CELL_BYTES)) {
    rls_ring_is_unknown = true;
    return false;
  }
  const struct rls_shim_thread record = {
      .kind = RLS_SHIM_THREAD, .tid = slot->owner, .ts_ns = rls_now_ns()};
  rls_append(slot, &record);
  return true;
}
