// What the files of the fake CUPTI share.
#ifndef FAKE_CUPTI_H
#define FAKE_CUPTI_H

#include <pthread.h>
#include <stdbool.h>

#include "fake_link.h"

// What this library is, and what it pretends to be where FAKECUPTI_API says otherwise.
#ifndef FAKECUPTI_BUILD
#define FAKECUPTI_BUILD 130001
#endif

enum fake_cupti_result {
  CUPTI_OK = 0,
  CUPTI_INVALID_PARAMETER = 1,
  CUPTI_INVALID_CONTEXT = 3,
  CUPTI_INVALID_OPERATION = 7,
  CUPTI_END = 12,
  CUPTI_NOT_COMPATIBLE = 14,
  CUPTI_NOT_INITIALIZED = 15,
  CUPTI_INVALID_STREAM = 20,
  CUPTI_INVALID_KIND = 21,
  CUPTI_MULTIPLE_SUBSCRIBERS = 39,
  CUPTI_UNKNOWN = 999,
};

// Of cuptiSubscribe_v2.
struct fake_subscriber_params {
  size_t struct_bytes;
  const char* name;
  char* old_name;
  size_t old_bytes;
};

typedef void (*fake_request)(uint8_t** buffer, size_t* bytes, size_t* max_records);
typedef void (*fake_complete)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                              size_t valid_bytes);

// Set by the calls, read by what writes records; under `lock`.
struct fake_cupti {
  pthread_mutex_t lock;
  uint32_t api;
  bool is_subscribed;
  fake_request request;
  fake_complete complete;
  uint64_t (*timestamp)(void);
  uint64_t timestamp_offset;  // what turns CLOCK_MONOTONIC into it
  bool ignores_timestamp;     // of what the GPU did (FAKECUPTI_CLOCK=ignore)
  uint64_t enabled;           // bit of each kind
  bool calls[3][FAKE_FUNCTIONS];
  bool has_system_tids;
};
extern struct fake_cupti fake_cupti;

// fake_subscriber.c: the driver that is loaded.
void* fake_driver_symbol(const char* name);
bool fake_has_driver(void);
// What calls answer without one.
int fake_no_driver(void);
// Has the driver tell what happens; false: no more.
void fake_listen(bool listens);

// The beginning of a call: what a test says it shall return, and what it does without a driver.
#define INJECT(argument)                                              \
  do {                                                                \
    const int injected = fake_injected(__func__, (uint64_t)argument); \
    if (injected != CUPTI_OK) return injected;                        \
    if (!fake_has_driver()) return fake_no_driver();                  \
  } while (0)

// For what answers without a driver too, up to 13.3.
#define INJECT_ALWAYS(argument)                                               \
  do {                                                                        \
    const int injected = fake_injected_often(__func__, (uint64_t)argument);   \
    if (injected != CUPTI_OK) return injected;                                \
    if (fake_cupti.api >= 130401 && !fake_has_driver()) return CUPTI_UNKNOWN; \
  } while (0)

// fake_inject.c: what FAKECUPTI_FAIL says this call shall return; 0: nothing. Notes the call in
// FAKECUPTI_LOG, unless it is one that is made often.
int fake_injected(const char* call, uint64_t argument);
int fake_injected_often(const char* call, uint64_t argument);

// fake_records.c
#define FAKE_RECORD_BYTES 256
// Size of CUPTI's newest record of a kind in a version; 0: it knows none.
size_t fake_record_size(uint32_t api, uint32_t kind);
// Writes an event as CUPTI would and returns its size. tid: of the caller.
size_t fake_write_record(uint32_t api, const struct fake_event* event, uint64_t tid, uint8_t* to);
// Where the pointer to its name stands in a record; 0: it has none.
size_t fake_name_offset(uint32_t kind);

// fake_clock.c
uint64_t fake_now(void);  // the clock of calls
// What turns CLOCK_MONOTONIC into the clock of a record.
uint64_t fake_clock_offset(uint32_t kind);
// Takes the client's clock into use.
void fake_set_timestamp(uint64_t (*timestamp)(void));

// fake_buffers.c
void fake_heard(const struct fake_event* event);
// Hands over what is complete, and with `force` all there is; returns when that has been done.
void fake_flush(bool force);
uint64_t fake_take_dropped(void);

// fake_replay.c: whether FAKECUPTI_REPLAY names recorded buffers; hands them out, once.
bool fake_replays(void);
void fake_replay(fake_request request, fake_complete complete);

#endif  // FAKE_CUPTI_H
