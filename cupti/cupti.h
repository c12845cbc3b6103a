// GPU activity by CUPTI, as the rooms of this half of the shim see it.
//
//   InitializeInjection or a late attach -> start -> CUPTI's buffers -> flush thread -> ring
//
// Only the flush thread converts records and writes them; threads of the program hand buffers in
// and out, and nothing else.
#ifndef RLS_CUPTI_H
#define RLS_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti_abi.h"
#include "ring.h"
#include "shim.h"

#define RLS_CUPTI_REASON_BYTES 768
#define RLS_CUPTI_PATH_BYTES 1024
#define RLS_UNKNOWN_ID UINT32_MAX

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

// cupti_start.c. Both return at once, print nothing, and leave the reason in a status record.
// `environment`: NAME=VALUE, each with its NUL, an empty one at the end.
void rls_cupti_start(void);
void rls_cupti_start_late(const char* environment);
// All that was enabled, on or off; on: what there is of contexts and streams is told.
void rls_cupti_switch(bool on);

// Whether this is the process that CUPTI was started in, and no forked child of it.
static inline bool rls_cupti_is_own_life(void) {
  return rls_cupti.life != 0 && rls_cupti.life == *rls_life;
}

// cupti_library.c: opens the libcupti that belongs to this process. `wanted`: a path that was
// asked for, or NULL. NULL: there is none, and rls_cupti.reason says so.
void* rls_cupti_open(const char* wanted);
// The function behind a name, in the driver that is loaded; NULL: none.
void* rls_cuda_function(const char* name);
// Fills rls_cupti.functions; false: one that nothing works without is missing, see `reason`.
bool rls_cupti_resolve(void* library);

// cupti_status.c
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

// cupti_calls.c: the calls of the CUDA runtime and driver that are recorded, and their names.
// Enables them. Sets their bits in rls_cupti.recorded and .refused.
void rls_cupti_enable_calls(void);
// Stops or goes on.
void rls_cupti_switch_calls(bool on);
// The hash of a call's name, told; 0: it has none. False: this call is not wanted.
bool rls_cupti_call_name(struct rls_shim_slot* slot, uint32_t kind, uint32_t function,
                         uint64_t* name);

// cupti_buffers.c
struct rls_buffer {
  struct rls_buffer* next;
  uint64_t valid_bytes;
  uint8_t reserved[48];
  uint8_t records[];
};
void rls_buffers_prepare(void);
void rls_buffer_requested(uint8_t** buffer, size_t* bytes, size_t* max_records);
void rls_buffer_completed(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                          size_t valid_bytes);
// How many are in CUPTI's hands.
uint32_t rls_buffers_outstanding(void);
// Requests that could not be met since the last call.
uint64_t rls_buffers_refused(void);
// How many came that are not ours; they were left alone.
uint64_t rls_buffers_foreign(void);
// The completed ones, oldest first; each has to be given back.
struct rls_buffer* rls_buffers_take(void);
void rls_buffer_give_back(struct rls_buffer* buffer);

// cupti_records.c: the records of a buffer become cells. Flush thread only.
void rls_cupti_convert(struct rls_shim_slot* slot, const struct rls_buffer* buffer);
// Counts them as lost: this thread has no ring.
void rls_cupti_count_lost(const struct rls_buffer* buffer);
// Waits a little while the ring is full. Flush thread only.
void rls_cupti_make_room(struct rls_shim_slot* slot);
void rls_cupti_tell_loss(struct rls_shim_slot* slot, uint16_t what, uint32_t kind, uint64_t count);

// cupti_names.c: names of kernels, by their address. Flush thread only.
uint64_t rls_cupti_kernel_name(struct rls_shim_slot* slot, const char* name);

// cupti_devices.c: what the driver says of its GPUs, and the contexts and streams seen so far.
// False: the driver is not ready yet.
bool rls_cupti_tell_devices(struct rls_shim_slot* slot);
void rls_cupti_note_context(struct rls_shim_slot* slot, uint32_t context, uint32_t device);
void rls_cupti_note_stream(struct rls_shim_slot* slot, uint32_t context, uint32_t stream);
uint32_t rls_cupti_device_of(uint32_t context);
// All of them again, for another reader.
void rls_cupti_tell_named(struct rls_shim_slot* slot);

// cupti_given.c: the names that the program gives, from any of its threads; of what CUPTI does not
// know, or where it is not on, nothing is kept, but for names of GPUs before CUPTI is started.
// `name`: not NULL. `context` and `stream` are the driver's handles, the latter NULL for the
// default stream of the current context; both exist.
void rls_cupti_name_device(uint32_t device, const char* name);
void rls_cupti_name_context(void* context, const char* name);
void rls_cupti_name_stream(void* stream, const char* name);
// Flush thread only: those that came since the last call, NULL: to nobody, they are kept; and for
// another reader the others.
void rls_cupti_tell_given(struct rls_shim_slot* slot);
void rls_cupti_tell_given_again(struct rls_shim_slot* slot);

// cupti_dump.c: RLSCOPE_CUPTI_DUMP.
void rls_cupti_dump_prepare(const char* folder);
void rls_cupti_dump(const struct rls_buffer* buffer);

// cupti_reader.c: what the reader is told beside the records. Flush thread only.
// Before the first round: it was told of the status; 0: nobody was.
void rls_cupti_expect_reader(uint32_t reader);
// What a reader has to know before anything else.
void rls_cupti_introduce(struct rls_shim_slot* slot, uint32_t reader);
// The three clocks at one instant: of some tries, the one that took least.
void rls_cupti_tell_clock(struct rls_shim_slot* slot);
// What began before is not told to this reader, for not all of it can be.
void rls_cupti_begin_anew(void);
void rls_cupti_tell_losses(struct rls_shim_slot* slot);

// cupti_flush.c
// False: no thread can be started.
bool rls_cupti_start_thread(void);
// From any thread: a buffer is full; the first one was asked for.
void rls_cupti_wake(void);
void rls_cupti_wake_if_idle(void);
bool rls_cupti_is_flush_thread(void);

#endif  // RLS_CUPTI_H
