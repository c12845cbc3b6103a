// What the reader is told beside the records. Flush thread only.
#ifndef RLS_CUPTI_READER_H
#define RLS_CUPTI_READER_H

#include <stdint.h>

#include "records.h"

// Before the first round: it has the status; 0: nobody has.
void rls_cupti_expect_reader(uint32_t reader);
// What a reader has to know before anything else.
void rls_cupti_introduce(struct rls_shim_slot* slot, uint32_t reader);
// The three clocks at one instant: of some tries, the one that took least.
void rls_cupti_tell_clock(struct rls_shim_slot* slot);
// What began before is not reported to this reader, for not all of it can be.
void rls_cupti_begin_anew(void);
void rls_cupti_tell_losses(struct rls_shim_slot* slot);

#endif  // RLS_CUPTI_READER_H
