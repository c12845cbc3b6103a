// A thread that does nothing but look at the clock sees how long it was away.
#include "loops.h"

// Longer than any look at the clock, shorter than any interrupt.
enum { kLeastGapNs = 400 };

// Looks for `length_ns`, not counting the gaps; stores how long each was, up to `room` of them, and
// returns how many.
RLS_EXPORT long rls_find_gaps(double length_ns, double* gaps_ns, long room) {
  double before_ns = rls_wall_ns();
  double looked_ns = 0;
  long found = 0;
  while (looked_ns < length_ns && found < room) {
    const double at_ns = rls_wall_ns();
    if (at_ns - before_ns > kLeastGapNs)
      gaps_ns[found++] = at_ns - before_ns;
    else
      looked_ns += at_ns - before_ns;
    before_ns = at_ns;
  }
  return found;
}
