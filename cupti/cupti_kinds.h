// The kinds of CUPTI's activity records that are enabled.
#ifndef RLS_CUPTI_KINDS_H
#define RLS_CUPTI_KINDS_H

#include <stdbool.h>
#include <stdint.h>

// Enables all but `unwanted`, a bit for each kind, and the calls; sets their bits in
// rls_cupti.recorded and .refused. False: kernels are refused, without which all else would look
// like the whole truth.
bool rls_cupti_enable_kinds(uint64_t unwanted);
// All that was enabled, on or off; on: what there is of contexts and streams is reported.
void rls_cupti_switch(bool on);

#endif  // RLS_CUPTI_KINDS_H
