// What the files of the fake driver share.
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>

#include "fake_link.h"

enum fake_result {
  FAKE_SUCCESS = 0,
  FAKE_INVALID_VALUE = 1,
  FAKE_NOT_INITIALIZED = 3,
  FAKE_NO_DEVICE = 100,
  FAKE_INVALID_DEVICE = 101,
  FAKE_INVALID_CONTEXT = 201,
  FAKE_ILLEGAL_ADDRESS = 700,
  FAKE_CAPTURE_UNSUPPORTED = 900,
};

#define FAKE_MAX_NODES 256
#define FAKE_LATENCY_NS 2000

// A node of a graph: an event that has yet to happen. Its start and end are 0 and how long it
// takes.
struct fake_graph {
  uint32_t id;
  uint32_t count;
  struct fake_event nodes[FAKE_MAX_NODES];
};

struct fake_context;

struct fake_stream {
  struct fake_context* context;
  struct fake_stream* next;
  uint32_t id;
  uint64_t busy_until_ns;
  struct fake_graph* capture;  // of what was called since cuStreamBeginCapture
};

struct fake_context {
  uint32_t id;
  uint32_t device;
  struct fake_stream null_stream;
  struct fake_stream* streams;
};

struct fake_function {
  char name[120];
  uint64_t takes_ns;
  bool faults;     // it reads where it must not
  bool is_loaded;  // lazily, when it was launched first
};

extern pthread_mutex_t fake_lock;
extern int fake_fault;  // every call returns it from now on

// FAKE_SUCCESS, or why the calling process cannot use CUDA.
int fake_state(void);
uint32_t fake_devices(void);
struct fake_context* fake_current(void);
uint32_t fake_correlation(void);
uint32_t fake_next_id(void);
// Tells whoever listens, and keeps count.
void fake_tell(const struct fake_event* event);

// fake_truth.c
void fake_count_call(const struct fake_call* call);
void fake_count_event(const struct fake_event* event);

// fake_streams.c
uint32_t fake_open_stream(struct fake_context* context, struct fake_stream* stream);
struct fake_stream* fake_stream_of(struct fake_stream* stream);
// Puts work at the end of a stream, or of the graph that it captures.
int fake_enqueue(struct fake_stream* stream, struct fake_event* work, uint64_t takes_ns);
// Sleeps until a stream has done all that it was given.
void fake_wait(const struct fake_stream* stream);

#endif  // FAKE_CUDA_H
