// Whether the program has put itself under a seccomp filter.
#ifndef RLS_SECCOMP_FILTERS_H
#define RLS_SECCOMP_FILTERS_H

#include <stdbool.h>

// A filter that came from outside (a container's) answers calls it forbids with an error. One that
// the program set for itself may kill it, so that nothing must be tried. Reads /proc/self/status
// and the parent's: calls that the loading of this library has just made as well.
bool rls_has_own_seccomp_filter(void);

#endif  // RLS_SECCOMP_FILTERS_H
