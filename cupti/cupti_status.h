// Whether GPU activity is recorded, and if not, why not: what the rooms of CUPTI share.
//
//   InitializeInjection or a late attach -> start -> CUPTI's buffers -> flush thread -> ring
//
// Only the flush thread converts records and writes them; threads of the program hand buffers in
// and out, and nothing else.
#ifndef RLS_CUPTI_STATUS_H
#define RLS_CUPTI_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"
#include "process.h"
#include "records.h"

// A path and what the loader says of it.
#define RLS_CUPTI_SUBJECT_BYTES 768
#define RLS_CUPTI_PATH_BYTES 1024

struct rls_cupti {
  struct cupti_functions functions;
  uint32_t incarnation;  // in which CUPTI was started; see rls_incarnation
  uint32_t version;      // cuptiGetVersion; 0: not known
  uint32_t driver;       // cuDriverGetVersion; 0: not known
  uint64_t recorded;
  uint64_t refused;
  uint32_t code;
  uint16_t state;  // enum rls_shim_gpu_state
  uint16_t why;    // enum rls_shim_gpu_why
  bool is_late;
  // What began before belongs to the time when nobody read; 0: somebody always did.
  uint64_t since_ns;
  uint64_t since_realtime_ns;
  bool has_clock;
  bool has_thread_ids;
  void* subscriber;
  char library[RLS_CUPTI_PATH_BYTES];
  char subject[RLS_CUPTI_SUBJECT_BYTES];
};
extern struct rls_cupti rls_cupti;

// Whether this is the process that CUPTI was started in, and no forked child of it.
static inline bool rls_cupti_is_own_incarnation(void) {
  return rls_cupti.incarnation != 0 && rls_cupti.incarnation == *rls_incarnation;
}

// Sets why, and what that is about; NULL: it needs nothing.
void rls_cupti_note(enum rls_shim_gpu_why why, const char* subject);
// A call failed, and nothing goes on.
void rls_cupti_failed(const char* call, cupti_result code);
// A call failed that we can do without. The first one is kept; true: this was it.
bool rls_cupti_failed_in_part(const char* call, cupti_result code);
// Begins and ends writing on this thread: NULL where nothing can be written.
struct rls_shim_slot* rls_cupti_begin(void);
void rls_cupti_done(void);
void rls_cupti_tell_status(struct rls_shim_slot* slot);
// Off, where nothing was started and may be later: rls_cupti is not touched.
void rls_cupti_tell_off(struct rls_shim_slot* slot, enum rls_shim_gpu_why why);
void rls_cupti_tell_text(struct rls_shim_slot* slot, uint64_t* hash, const char* text);

#endif  // RLS_CUPTI_STATUS_H
