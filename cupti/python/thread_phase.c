#include "thread_phase.h"

#include <pthread.h>
#include <string.h>

#include "nvtx_client.h"

static const char* const kNames[RLS_PHASES] = {
    [RLS_SIMULATION] = "simulation",
    [RLS_INFERENCE] = "inference",
    [RLS_BACKPROPAGATION] = "backpropagation",
    [RLS_DATA] = "data",
};
static void* handles[RLS_PHASES];
static enum rls_phase default_gap;
static uint32_t life;
static atomic_bool has_environment;
static pthread_key_t exit_key;
static bool has_exit_key;

static _Thread_local struct rls_thread self;

atomic_uint rls_armed_threads;

void rls_arm(struct rls_thread* thread) {
  if (thread->is_armed) return;
  thread->is_armed = true;
  atomic_fetch_add_explicit(&rls_armed_threads, 1, memory_order_relaxed);
}

void rls_disarm(struct rls_thread* thread) {
  if (!thread->is_armed) return;
  thread->is_armed = false;
  atomic_fetch_sub_explicit(&rls_armed_threads, 1, memory_order_relaxed);
}

static void end_thread(void* ended) {
  struct rls_thread* thread = ended;
  rls_disarm(thread);
  rls_thread_switch(thread, RLS_NO_PHASE);
  // What another destructor calls may begin something again.
  thread->is_known_to_exit = false;
}

// The parent's range is not the child's to close. A child that acts shows it by a forward pass; one
// that steps environments for its parent waits between the steps.
static void forget_parent(void) {
  const bool is_known_to_exit = self.is_known_to_exit;
  memset(&self, 0, sizeof(self));
  self.is_known_to_exit = is_known_to_exit;
  self.life = ++life;
  default_gap = RLS_NO_PHASE;
  atomic_store(&has_environment, false);
  atomic_store(&rls_armed_threads, 0);
}

bool rls_phases_start(void) {
  if (!rls_nvtx_available()) return false;
  for (int phase = RLS_NO_PHASE + 1; phase < RLS_PHASES; ++phase)
    handles[phase] = rls_nvtx_register(kNames[phase]);
  has_exit_key = pthread_key_create(&exit_key, end_thread) == 0;
  return pthread_atfork(NULL, NULL, forget_parent) == 0;
}

struct rls_thread* rls_thread_self(void) {
  return &self;
}

bool rls_has_environment(void) {
  return atomic_load_explicit(&has_environment, memory_order_relaxed);
}

void rls_set_default_gap(enum rls_phase phase) { default_gap = phase; }

void rls_thread_switch(struct rls_thread* thread, enum rls_phase phase) {
  if (thread->phase == phase) return;
  if (thread->phase != RLS_NO_PHASE) rls_nvtx_pop();
  if (phase != RLS_NO_PHASE) rls_nvtx_push(handles[phase], phase == RLS_SIMULATION);
  thread->phase = phase;
  if (!thread->is_known_to_exit && has_exit_key) {
    thread->is_known_to_exit = true;
    pthread_setspecific(exit_key, thread);
  }
}

void rls_environment_enter(struct rls_thread* thread) {
  if (thread->environment_depth++ > 0) return;
  if (!rls_has_environment()) atomic_store(&has_environment, true);
  thread->gap = RLS_NO_PHASE;
  thread->is_sampled = false;
  rls_thread_switch(thread, RLS_SIMULATION);
}

void rls_environment_count(const struct rls_thread* thread, int64_t steps) {
  if (thread->phase == RLS_SIMULATION) rls_nvtx_count(steps);
}

void rls_environment_leave(struct rls_thread* thread) {
  if (thread->environment_depth == 0 || --thread->environment_depth > 0) return;
  const bool is_gap = thread->scope_depth == 0;
  rls_thread_switch(thread, is_gap ? default_gap : thread->scope_phase);
  if (is_gap) rls_arm(thread);
}

void rls_decide(struct rls_thread* thread, enum rls_phase phase) {
  if (!rls_has_environment()) return;
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  if (thread->gap == RLS_NO_PHASE) thread->gap = phase;
  rls_thread_switch(thread, phase);
}
