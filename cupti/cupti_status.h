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

#define RLS_CUPTI_REASON_BYTES 768
#define RLS_CUPTI_PATH_BYTES 1024

struct rls_cupti {
  struct cupti_functions functions;
  uint32_t life;     // in which CUPTI was started; see rls_life
  uint32_t version;  // cuptiGetVersion; 0: not known
  uint32_t driver;   // cuDriverGetVersion; 0: not known
  uint64_t recorded;
  uint64_t refused;
  uint32_t code;
  uint16_t state;  // enum rls_shim_gpu_state
  bool is_late;
  // What began before belongs to the time when nobody read; 0: somebody always did.
  uint64_t since_ns;
  uint64_t since_realtime_ns;
  bool has_clock;
  bool has_thread_ids;
  void* subscriber;
  char library[RLS_CUPTI_PATH_BYTES];
  char reason[RLS_CUPTI_REASON_BYTES];
};
extern struct rls_cupti rls_cupti;

// Whether this is the process that CUPTI was started in, and no forked child of it.
static inline bool rls_cupti_is_own_life(void) {
  return rls_cupti.life != 0 && rls_cupti.life == *rls_life;
}

// Sets the reason, as printf does.
void rls_cupti_say(const char* format, ...) __attribute__((format(printf, 1, 2)));
// Goes on with it.
void rls_cupti_say_more(const char* format, ...) __attribute__((format(printf, 1, 2)));
// A call failed, and nothing goes on: a sentence, its code and what that means.
void rls_cupti_failed(const char* call, cupti_result code);
// A call failed that we can do without. The first one is kept; true: this was it.
bool rls_cupti_failed_in_part(const char* call, cupti_result code);
// Begins and ends writing on this thread: NULL where nothing can be written.
struct rls_shim_slot* rls_cupti_begin(void);
void rls_cupti_done(void);
void rls_cupti_tell_status(struct rls_shim_slot* slot);
// Off, where nothing was started and may be later: rls_cupti is not touched.
void rls_cupti_tell_off(struct rls_shim_slot* slot, const char* reason);
void rls_cupti_tell_text(struct rls_shim_slot* slot, uint64_t* hash, const char* text);

#endif  // RLS_CUPTI_STATUS_H
