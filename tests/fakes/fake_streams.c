// The fake driver: streams, and the work on them in simulated time.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

uint32_t fake_open_stream(struct fake_context* context, struct fake_stream* stream) {
  stream->context = context;
  stream->id = fake_next_id();
  const struct fake_event event = {
      .kind = FAKE_STREAM,
      .detail = stream == &context->null_stream ? 3 : 1,
      .context = context->id,
      .device = context->device,
      .stream = stream->id,
      .correlation = fake_correlation(),
  };
  fake_tell(&event);
  return stream->id;
}

struct fake_stream* fake_stream_of(struct fake_stream* stream) {
  if (stream != NULL) return stream;
  return fake_current() != NULL ? &fake_current()->null_stream : NULL;
}

void fake_wait(const struct fake_stream* stream) {
  pthread_mutex_lock(&fake_lock);
  const uint64_t until_ns = stream->busy_until_ns;
  pthread_mutex_unlock(&fake_lock);
  const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000U),
                                 .tv_nsec = (long)(until_ns % 1000000000U)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

// Gives work its time: behind what the stream has to do already. The caller holds the lock.
static void schedule(struct fake_stream* stream, struct fake_event* work, uint64_t takes_ns) {
  const uint64_t earliest = fake_clock(CLOCK_MONOTONIC) + FAKE_LATENCY_NS;
  work->device = stream->context->device;
  work->context = stream->context->id;
  work->stream = stream->id;
  work->correlation = fake_correlation();
  work->start_ns = stream->busy_until_ns > earliest ? stream->busy_until_ns : earliest;
  work->end_ns = work->start_ns + takes_ns;
  stream->busy_until_ns = work->end_ns;
}

int fake_enqueue(struct fake_stream* stream, struct fake_event* work, uint64_t takes_ns) {
  pthread_mutex_lock(&fake_lock);
  struct fake_graph* capture = stream->capture;
  if (capture != NULL) {
    const bool has_room = capture->count < FAKE_MAX_NODES;
    work->end_ns = takes_ns;
    work->node = ((uint64_t)capture->id << 32) + capture->count;
    if (has_room) capture->nodes[capture->count++] = *work;
    pthread_mutex_unlock(&fake_lock);
    return has_room ? FAKE_SUCCESS : FAKE_CAPTURE_UNSUPPORTED;
  }
  schedule(stream, work, takes_ns);
  pthread_mutex_unlock(&fake_lock);
  fake_tell(work);
  return FAKE_SUCCESS;
}

FAKE_EXPORT int cuStreamCreate(struct fake_stream** stream, unsigned flags) {
  (void)flags;
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 124);
  struct fake_context* context = fake_current();
  const int result = context == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS) {
    *stream = calloc(1, sizeof **stream);
    if (*stream == NULL) abort();
    fake_open_stream(context, *stream);
    pthread_mutex_lock(&fake_lock);
    (*stream)->next = context->streams;
    context->streams = *stream;
    pthread_mutex_unlock(&fake_lock);
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuStreamGetCtx(struct fake_stream* handle, struct fake_context** context) {
  const struct fake_stream* stream = fake_stream_of(handle);
  const int result = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS) *context = stream->context;
  return result;
}

FAKE_EXPORT int cuStreamDestroy_v2(struct fake_stream* stream) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 326);
  const int result = fake_state();
  if (result == FAKE_SUCCESS) {
    pthread_mutex_lock(&fake_lock);
    struct fake_stream** link = &stream->context->streams;
    while (*link != stream) link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&fake_lock);
    free(stream->capture);
    free(stream);
  }
  return fakecuda_leave(&call, result);
}

// 3: it was waited for a stream; 4: for all of the context.
static void tell_sync(uint32_t type, const struct fake_stream* stream, uint64_t start_ns) {
  const struct fake_event event = {
      .kind = FAKE_SYNC,
      .detail = type,
      .start_ns = start_ns,
      .end_ns = fake_clock(CLOCK_MONOTONIC),
      .device = stream->context->device,
      .context = stream->context->id,
      .stream = type == 4 ? UINT32_MAX : stream->id,
      .correlation = fake_correlation(),
  };
  fake_tell(&event);
}

FAKE_EXPORT int cuStreamSynchronize(struct fake_stream* handle) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 126);
  struct fake_stream* stream = fake_stream_of(handle);
  int result = stream == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS && stream->capture != NULL) result = FAKE_CAPTURE_UNSUPPORTED;
  if (result == FAKE_SUCCESS) {
    const uint64_t start_ns = fake_clock(CLOCK_MONOTONIC);
    fake_wait(stream);
    tell_sync(3, stream, start_ns);
    result = fake_state();
  }
  return fakecuda_leave(&call, result);
}

FAKE_EXPORT int cuCtxSynchronize(void) {
  struct fake_call call;
  fakecuda_enter(&call, FAKE_DRIVER, 17);
  struct fake_context* context = fake_current();
  int result = context == NULL ? FAKE_INVALID_CONTEXT : fake_state();
  if (result == FAKE_SUCCESS) {
    const uint64_t start_ns = fake_clock(CLOCK_MONOTONIC);
    fake_wait(&context->null_stream);
    for (struct fake_stream* stream = context->streams; stream != NULL; stream = stream->next)
      fake_wait(stream);
    tell_sync(4, &context->null_stream, start_ns);
    result = fake_state();
  }
  return fakecuda_leave(&call, result);
}
