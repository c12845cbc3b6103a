// The entry of a late attach: called by the recorder in a thread that it stopped, so it must only
// start a thread of its own and return.
#include "late.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "cupti.h"

#define EXPORTED __attribute__((visibility("default")))
#define STACK_BYTES (1U << 20)  // libcupti is loaded on it

EXPORTED struct rls_late_status rlscope_shim_late_status = {.version = RLS_LATE_VERSION};
EXPORTED int rlscope_shim_late_attach(const struct rls_late_request* request);

static struct rls_late_request asked;

static void set_state(uint32_t state) {
  __atomic_store_n(&rlscope_shim_late_status.state, state, __ATOMIC_RELEASE);
}

static void* attach(void* unused) {
  (void)unused;
  prctl(PR_SET_NAME, "rlscope-late");
  struct rls_late_status* status = &rlscope_shim_late_status;
  // First the memory, so that the recorder finds it whether or not an event ever comes.
  if (!rls_process_start() || !rls_late_scan(status)) {
    set_state(RLS_LATE_FAILED);
    return NULL;
  }
  rls_cupti_start_late(asked.environment);
  rls_late_python(&asked, status);
  set_state(RLS_LATE_DONE);
  return NULL;
}

// Signals of the program must not be taken by a thread that the program does not know.
static int start_thread(void) {
  sigset_t all;
  sigset_t before;
  pthread_attr_t attributes;
  pthread_t thread;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  sigfillset(&all);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  error = pthread_create(&thread, &attributes, attach, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

// Returns 0, or why nothing was started.
int rlscope_shim_late_attach(const struct rls_late_request* request) {
  if (request == NULL || request->version != RLS_LATE_VERSION) return EINVAL;
  uint32_t state = __atomic_load_n(&rlscope_shim_late_status.state, __ATOMIC_ACQUIRE);
  if (state == RLS_LATE_SCANNING) return EBUSY;
  if (!__atomic_compare_exchange_n(&rlscope_shim_late_status.state, &state, RLS_LATE_SCANNING,
                                   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    return EBUSY;
  }
  memcpy(&asked, request, sizeof(asked));
  asked.environment[RLS_LATE_MAX_ENVIRONMENT - 1] = '\0';
  asked.environment[RLS_LATE_MAX_ENVIRONMENT - 2] = '\0';
  const int error = start_thread();
  if (error != 0) set_state(RLS_LATE_FAILED);
  return error;
}
