// Starting CUPTI: from InitializeInjection, which the driver calls while it starts, or late.
//
// cuptiSubscribe comes first, so that a process whose CUPTI belongs to another tool is left as it
// was: the clock and the buffers are settings of the process, not of the subscriber.
#include "cupti_start.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cupti_dump.h"
#include "cupti_flush.h"
#include "cupti_kinds.h"
#include "cupti_library.h"
#include "cupti_status.h"
#include "process.h"
#include "shim.h"

struct settings {
  const char* mode;     // RLSCOPE_CUPTI
  const char* graphs;   // RLSCOPE_CUDA_GRAPHS
  const char* memory;   // RLSCOPE_CUDA_MEMORY
  const char* library;  // RLSCOPE_CUPTI_LIBRARY
  const char* dump;     // RLSCOPE_CUPTI_DUMP
};

// No domain is enabled for it: subscribing is what makes CUPTI ours.
static void on_callback(void* own, uint32_t domain, uint32_t function, const void* data) {
  (void)own;
  (void)domain;
  (void)function;
  (void)data;
}

// A bit for each kind of records.
static uint64_t unwanted_kinds(const struct settings* settings) {
  uint64_t kinds = 0;
  if (settings->graphs != NULL && strcmp(settings->graphs, "node") == 0)
    kinds |= 1ULL << CUPTI_KIND_GRAPH;
  if (settings->memory == NULL || strcmp(settings->memory, "1") != 0)
    kinds |= 1ULL << CUPTI_KIND_MEMORY;
  return kinds;
}

static uint64_t trace_clock(void) { return rls_now_ns(); }

// CUPTI's own, on Linux.
static uint64_t default_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

// Leaves CUPTI as it was before us.
static void undo(void) {
  rls_cupti_switch(false);
  rls_cupti.recorded = 0;
  // Settings of the process, which whoever uses CUPTI after us would have.
  if (rls_cupti.has_clock) rls_cupti.functions.register_timestamp(default_clock);
  if (rls_cupti.has_thread_ids) rls_cupti.functions.set_thread_id_type(CUPTI_THREAD_ID_DEFAULT);
  rls_cupti.has_clock = false;
  rls_cupti.has_thread_ids = false;
  if (rls_cupti.functions.unsubscribe != NULL)
    rls_cupti.functions.unsubscribe(rls_cupti.subscriber);
  rls_cupti.state = RLS_SHIM_GPU_REFUSED;
}

static void set_clock(void) {
  if (rls_cupti.functions.register_timestamp == NULL) return;
  const cupti_result result = rls_cupti.functions.register_timestamp(trace_clock);
  rls_cupti.has_clock = result == CUPTI_OK;
  if (result != CUPTI_OK)
    rls_cupti_failed_in_part("cuptiActivityRegisterTimestampCallback", result);
}

static void set_thread_ids(void) {
  if (rls_cupti.functions.set_thread_id_type == NULL) return;
  const cupti_result result = rls_cupti.functions.set_thread_id_type(CUPTI_THREAD_ID_SYSTEM);
  rls_cupti.has_thread_ids = result == CUPTI_OK;
  if (result != CUPTI_OK) rls_cupti_failed_in_part("cuptiSetThreadIdType", result);
}

// Who holds CUPTI, which its second way to subscribe tells when it is refused too (from CUDA 13.0
// on).
static void name_holder(void) {
  char name[CUPTI_SUBSCRIBER_NAME_BYTES] = {0};
  struct cupti_subscriber_params params = {
      .struct_bytes = sizeof(params), .old_name = name, .old_bytes = sizeof(name)};
  void* subscriber = NULL;
  if (rls_cupti.functions.subscribe_v2 == NULL) return;
  const cupti_result result =
      rls_cupti.functions.subscribe_v2(&subscriber, on_callback, NULL, &params);
  name[sizeof(name) - 1] = '\0';
  rls_cupti_note(RLS_SHIM_GPU_HELD, name);
  // Whoever held it has just left. What is recorded from here on would not be the whole truth.
  if (result == CUPTI_OK && rls_cupti.functions.unsubscribe != NULL)
    rls_cupti.functions.unsubscribe(subscriber);
}

// With CUPTI loaded. False: refused, and undone.
static bool take_over(const struct settings* settings) {
  const struct cupti_functions* f = &rls_cupti.functions;
  cupti_result result = f->get_version != NULL ? f->get_version(&rls_cupti.version) : CUPTI_OK;
  if (result != CUPTI_OK) {
    rls_cupti.version = 0;
    rls_cupti_failed_in_part("cuptiGetVersion", result);
  }
  result = f->subscribe(&rls_cupti.subscriber, on_callback, NULL);
  if (result != CUPTI_OK) {
    rls_cupti_failed("cuptiSubscribe", result);
    if (result == CUPTI_MULTIPLE_SUBSCRIBERS) {
      rls_cupti_note(RLS_SHIM_GPU_HELD, NULL);
      name_holder();
    }
    return false;
  }
  set_clock();
  set_thread_ids();
  rls_buffers_prepare();
  rls_cupti.incarnation = *rls_incarnation;
  result = f->register_buffers(rls_buffer_requested, rls_buffer_completed);
  if (result != CUPTI_OK) {
    rls_cupti_failed("cuptiActivityRegisterCallbacks", result);
    undo();
    return false;
  }
  if (!rls_cupti_enable_kinds(unwanted_kinds(settings))) {
    undo();
    return false;
  }
  return true;
}

static void refuse(void) { rls_cupti.state = RLS_SHIM_GPU_REFUSED; }

static void start(const struct settings* settings) {
  uint32_t (*get_version)(int*) = (uint32_t(*)(int*))rls_cuda_function("cuDriverGetVersion");
  int driver = 0;
  if (get_version != NULL && get_version(&driver) == CUDA_OK) rls_cupti.driver = (uint32_t)driver;
  if (get_version == NULL) {
    rls_cupti_note(RLS_SHIM_GPU_NO_DRIVER, NULL);
    return refuse();
  }
  void* library = rls_cupti_open(settings->library);
  if (library == NULL || !rls_cupti_resolve(library)) return refuse();
  if (!take_over(settings)) return refuse();
  rls_cupti_dump_prepare(settings->dump);
  rls_cupti.state = RLS_SHIM_GPU_ON;
  if (rls_cupti_start_thread()) return;
  undo();
  rls_cupti_note(RLS_SHIM_GPU_NO_THREAD, NULL);
}

static void set_off(enum rls_shim_gpu_why why) {
  rls_cupti_note(why, NULL);
  rls_cupti.state = RLS_SHIM_GPU_OFF;
}

// Once in a process: a second start, or one in a child of a process that CUPTI runs in, is none.
static bool begin_start(void) {
  static uint32_t started;
  uint32_t none = 0;
  if (!rls_process_start()) return false;
  if (rls_cupti.incarnation != 0) return false;
  if (!__atomic_compare_exchange_n(&started, &none, *rls_incarnation, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED) &&
      none == *rls_incarnation)
    return false;
  started = *rls_incarnation;
  // What a parent that did not get this far left behind.
  memset(&rls_cupti, 0, sizeof(rls_cupti));
  return true;
}

static void decide(const struct settings* settings) {
  if (settings->mode != NULL && strcmp(settings->mode, "yield") == 0) {
    set_off(RLS_SHIM_GPU_YIELDED);
  } else if (settings->mode != NULL && strcmp(settings->mode, "off") == 0) {
    set_off(RLS_SHIM_GPU_NOT_ASKED);
  } else {
    start(settings);
  }
  if (rls_cupti.state == RLS_SHIM_GPU_ON) return;  // the flush thread tells each reader
  struct rls_shim_slot* slot = rls_cupti_begin();
  if (slot == NULL) return;
  rls_cupti_tell_status(slot);
  rls_cupti_done();
}

static void start_with(const struct settings* settings, bool is_late) {
  const int saved = errno;
  sigset_t all;
  sigset_t before;
  if (begin_start()) {
    rls_cupti.is_late = is_late;
    // CUPTI starts threads of its own: they must not take the signals of the program either.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    decide(settings);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  errno = saved;
}

void rls_cupti_start(void) {
  const struct settings settings = {
      .mode = getenv("RLSCOPE_CUPTI"),
      .graphs = getenv("RLSCOPE_CUDA_GRAPHS"),
      .memory = getenv("RLSCOPE_CUDA_MEMORY"),
      .library = getenv("RLSCOPE_CUPTI_LIBRARY"),
      .dump = getenv("RLSCOPE_CUPTI_DUMP"),
  };
  // The shim may be in a program that nobody records.
  if (settings.mode == NULL && getenv("RLSCOPE_SESSION") == NULL) return;
  start_with(&settings, false);
}

static const char* value_of(const char* environment, const char* name) {
  const size_t length = strlen(name);
  for (; *environment != '\0'; environment += strlen(environment) + 1)
    if (strncmp(environment, name, length) == 0 && environment[length] == '=')
      return environment + length + 1;
  return NULL;
}

// A driver that has not started will call InitializeInjection when it does, if its environment
// says so then: that of Python programs is changed by a late attach.
static void tell_not_started(void) {
  struct rls_shim_slot* slot = rls_cupti_begin();
  if (slot == NULL) return;
  rls_cupti_tell_off(slot, RLS_SHIM_GPU_NOT_STARTED);
  rls_cupti_done();
}

void rls_cupti_start_late(const char* environment) {
  const struct settings settings = {
      .mode = value_of(environment, "RLSCOPE_CUPTI"),
      .graphs = value_of(environment, "RLSCOPE_CUDA_GRAPHS"),
      .memory = value_of(environment, "RLSCOPE_CUDA_MEMORY"),
      .library = value_of(environment, "RLSCOPE_CUPTI_LIBRARY"),
      .dump = value_of(environment, "RLSCOPE_CUPTI_DUMP"),
  };
  if (settings.mode == NULL || strcmp(settings.mode, "on") != 0) return;
  uint32_t (*get_count)(int*) = (uint32_t(*)(int*))rls_cuda_function("cuDeviceGetCount");
  int count = 0;
  if (get_count == NULL) return;
  if (get_count(&count) == CUDA_OK) {
    start_with(&settings, true);
  } else if (rls_cupti.incarnation != *rls_incarnation) {
    tell_not_started();
  }
}
