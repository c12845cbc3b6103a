// The entry of a late attach: called by the recorder in a thread that it stopped, so it must only
// start a thread of its own and return.
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "cupti_start.h"
#include "inject_python.h"
#include "inject_scan.h"
#include "process.h"
#include "thread.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED struct rls_inject_status rlscope_shim_inject_status = {.version = RLS_INJECT_VERSION};
EXPORTED int rlscope_shim_inject(const struct rls_inject_request* request);

static struct rls_inject_request asked;

static void set_state(uint32_t state) {
  __atomic_store_n(&rlscope_shim_inject_status.state, state, __ATOMIC_RELEASE);
}

static void* attach(void* unused) {
  (void)unused;
  prctl(PR_SET_NAME, "rlscope-late");
  struct rls_inject_status* status = &rlscope_shim_inject_status;
  // First the memory, so that the recorder finds it whether or not an event ever comes.
  if (!rls_process_start() || !rls_inject_scan(status)) {
    set_state(RLS_INJECT_FAILED);
    return NULL;
  }
  rls_cupti_start_late(asked.environment);
  rls_inject_python(&asked, status);
  set_state(RLS_INJECT_DONE);
  return NULL;
}

// Returns 0, or why nothing was started.
int rlscope_shim_inject(const struct rls_inject_request* request) {
  if (request == NULL || request->version != RLS_INJECT_VERSION) return EINVAL;
  uint32_t state = __atomic_load_n(&rlscope_shim_inject_status.state, __ATOMIC_ACQUIRE);
  if (state == RLS_INJECT_SCANNING) return EBUSY;
  if (!__atomic_compare_exchange_n(&rlscope_shim_inject_status.state, &state, RLS_INJECT_SCANNING,
                                   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    return EBUSY;
  }
  memcpy(&asked, request, sizeof(asked));
  asked.environment[RLS_INJECT_MAX_ENVIRONMENT - 1] = '\0';
  asked.environment[RLS_INJECT_MAX_ENVIRONMENT - 2] = '\0';
  const int error = rls_start_thread(attach);
  if (error != 0) set_state(RLS_INJECT_FAILED);
  return error;
}
