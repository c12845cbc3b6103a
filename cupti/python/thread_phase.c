#include "thread_phase.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "nvtx_client.h"

// What follows the last step of an update belongs to it if it takes less than this part of it.
#define LONG_TAIL 4

static const char* const kNames[RLS_PHASES] = {
    [RLS_SIMULATION] = "simulation",
    [RLS_INFERENCE] = "inference",
    [RLS_BACKPROPAGATION] = "backpropagation",
    [RLS_DATA] = "data",
    [RLS_ROLLOUT] = "rollout",
    [RLS_REWARD] = "reward",
    [RLS_LOGPROB] = "logprob",
    [RLS_ADVANTAGE] = "advantage",
    [RLS_OPTIMIZER] = "optimizer",
    [RLS_WEIGHT_SYNC] = "weight_sync",
    [RLS_OFFLOAD] = "offload",
    [RLS_EVALUATION] = "evaluation",
    [RLS_CHECKPOINT] = "checkpoint",
    [RLS_WAIT] = "wait",
};
static void* handles[RLS_PHASES];
static enum rls_phase default_gap;
static uint32_t incarnation;
static atomic_bool has_begun;
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
  thread->scope_depth = 0;
  rls_thread_end(thread);
  // What another destructor calls may begin something again.
  thread->is_known_to_exit = false;
}

// The parent's range is not the child's to close. A child that acts shows it by a forward pass; one
// that steps environments for its parent waits between the steps.
static void forget_parent(void) {
  const bool is_known_to_exit = self.is_known_to_exit;
  memset(&self, 0, sizeof(self));
  self.is_known_to_exit = is_known_to_exit;
  self.incarnation = ++incarnation;
  default_gap = RLS_NO_PHASE;
  atomic_store(&has_begun, false);
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

bool rls_has_begun(void) { return atomic_load_explicit(&has_begun, memory_order_relaxed); }

void rls_note_learning(struct rls_thread* thread) {
  thread->has_model = true;
  thread->is_early = false;
  if (!rls_has_begun()) atomic_store(&has_begun, true);
}

void rls_set_default_gap(enum rls_phase phase) { default_gap = phase; }

static void take_note_of_exit(struct rls_thread* thread) {
  if (thread->is_known_to_exit || !has_exit_key) return;
  thread->is_known_to_exit = true;
  pthread_setspecific(exit_key, thread);
}

uint64_t rls_now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

// Whether the thread learns no more, for so long that what it does is no part of the update.
static bool has_learned(const struct rls_thread* thread) {
  return thread->began_ns != 0 && thread->learned_ns > thread->began_ns &&
         (rls_now_ns() - thread->learned_ns) * LONG_TAIL > thread->learned_ns - thread->began_ns;
}

void rls_thread_switch(struct rls_thread* thread, enum rls_phase phase, uint32_t label) {
  if (thread->phase == phase && thread->label == label) return;
  if (has_learned(thread))
    rls_nvtx_pop_at(thread->learned_ns);
  else if (thread->phase != RLS_NO_PHASE)
    rls_nvtx_pop();
  const bool learns = phase == RLS_BACKPROPAGATION && thread->scope_depth == 0;
  thread->began_ns = learns ? rls_now_ns() : 0;
  if (phase != RLS_NO_PHASE) rls_nvtx_push(handles[phase], label, phase == RLS_SIMULATION);
  thread->phase = phase;
  thread->label = label;
  take_note_of_exit(thread);
}

void rls_thread_end(struct rls_thread* thread) {
  if (thread->phase == RLS_BACKPROPAGATION && thread->scope_depth == 0 && thread->learned_ns != 0) {
    rls_nvtx_pop_at(thread->learned_ns);
    thread->phase = RLS_NO_PHASE;
    thread->label = 0;
    thread->began_ns = 0;
  }
  rls_thread_switch(thread, RLS_NO_PHASE, 0);
}

// The phase of what is innermost now, if it is no environment.
static void resume(struct rls_thread* thread) {
  if (thread->environment_depth > 0) return;
  const unsigned depth = thread->scope_depth;
  if (depth > 0)
    rls_thread_switch(thread, thread->scopes[depth - 1].phase, thread->scopes[depth - 1].label);
  else
    rls_thread_switch(thread, thread->before, thread->before_label);
}

bool rls_scope_enter(struct rls_thread* thread, const struct rls_scope* scope) {
  rls_scope_leave(thread, scope->key);
  if (thread->environment_depth > 0 || thread->scope_depth == RLS_MAX_SCOPES) return false;
  if (thread->scope_depth == 0) {
    const bool goes_on = !scope->is_closing && !has_learned(thread);
    thread->before = goes_on ? thread->phase : RLS_NO_PHASE;
    thread->before_label = goes_on ? thread->label : 0;
  }
  struct rls_scope kept = *scope;
  const struct rls_scope* around =
      thread->scope_depth > 0 ? &thread->scopes[thread->scope_depth - 1] : NULL;
  // The same phase in itself is one. The log-probabilities of a training forward pass are learning.
  if (around != NULL && (kept.phase == around->phase ||
                         (kept.phase == RLS_LOGPROB && around->phase == RLS_BACKPROPAGATION))) {
    kept.phase = around->phase;
    kept.label = around->label;
  }
  thread->scopes[thread->scope_depth++] = kept;
  resume(thread);
  return true;
}

enum rls_phase rls_scope_leave(struct rls_thread* thread, uint64_t key) {
  unsigned index = thread->scope_depth;
  while (index > 0 && thread->scopes[index - 1].key != key) --index;
  if (index == 0) return RLS_NO_PHASE;
  const enum rls_phase phase = thread->scopes[index - 1].phase;
  const unsigned above = thread->scope_depth - index;
  memmove(&thread->scopes[index - 1], &thread->scopes[index], above * sizeof(*thread->scopes));
  --thread->scope_depth;
  resume(thread);
  return phase;
}

// Steps in an evaluation have its label: they are no steps of the training.
static uint32_t label_of_simulation(const struct rls_thread* thread) {
  for (unsigned index = thread->scope_depth; index > 0; --index) {
    const struct rls_scope* scope = &thread->scopes[index - 1];
    if (scope->phase == RLS_EVALUATION) return scope->label;
  }
  return 0;
}

void rls_environment_enter(struct rls_thread* thread) {
  if (thread->environment_depth++ > 0) return;
  if (!rls_has_begun()) atomic_store(&has_begun, true);
  thread->has_environment = true;
  thread->is_early = false;
  thread->is_sampled = false;
  rls_thread_switch(thread, RLS_SIMULATION, label_of_simulation(thread));
}

void rls_environment_count(struct rls_thread* thread, int64_t steps) {
  ++thread->steps_taken;
  if (thread->phase == RLS_SIMULATION) rls_nvtx_count(steps);
}

void rls_environment_leave(struct rls_thread* thread) {
  if (thread->environment_depth == 0 || --thread->environment_depth > 0) return;
  if (thread->scope_depth > 0) {
    resume(thread);
    return;
  }
  rls_thread_switch(thread, default_gap, 0);
  rls_arm(thread);
}

void rls_decide(struct rls_thread* thread, enum rls_phase phase) {
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  if (phase == RLS_INFERENCE || phase == RLS_BACKPROPAGATION) thread->has_model = true;
  if (phase == RLS_INFERENCE) thread->has_acted = true;
  // What lies between learning and acting by itself is neither.
  if (phase == RLS_INFERENCE && thread->phase != RLS_INFERENCE && !thread->has_environment &&
      !thread->acts_by_waiting)
    rls_thread_end(thread);
  rls_thread_switch(thread, phase, 0);
}
