#include "boundary.h"

#include "place.h"

// Whose functions the callbacks are: as failures.note takes it.
#define ENVIRONMENTS "environments"
#define FORWARD_PASSES "torch"

struct rls_callbacks rls_callbacks;

// Takes the exception that is set, which is ours and not the program's.
static void note_failure(const char* adapter) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* result = NULL;
  if (rls_callbacks.failed != NULL && value != NULL)
    result = PyObject_CallFunction(rls_callbacks.failed, "sO", adapter, value);
  if (result == NULL) PyErr_Clear();
  Py_XDECREF(result);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

static void call_back(const char* adapter, PyObject* callback, PyObject* argument) {
  if (callback == NULL) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* result = PyObject_CallFunctionObjArgs(callback, argument, NULL);
  if (result == NULL) note_failure(adapter);
  Py_XDECREF(result);
  PyErr_Restore(type, value, traceback);
}

static void resolve(struct rls_thread* thread, enum rls_phase phase) {
  if (!thread->is_pending) return;
  thread->is_pending = false;
  PyObject* number = PyLong_FromLong(phase);
  call_back(FORWARD_PASSES, rls_callbacks.resolve, number);
  Py_XDECREF(number);
}

// No simulator learns: the call on the stack is not an environment's.
static void refute_guess(struct rls_thread* thread) {
  if (thread->is_refuted == NULL) return;
  *thread->is_refuted = true;
  thread->is_refuted = NULL;
  if (thread->guessed_steps != 0) rls_environment_count(thread, thread->guessed_steps);
  thread->environment_depth = 0;
}

// What the reading of a buffer led to is what it will lead to.
static void note_sampled(struct rls_thread* thread, bool is_learning) {
  if (thread->leads == NULL) return;
  *thread->leads = is_learning;
  thread->leads = NULL;
}

void rls_sampled(struct rls_thread* thread, bool* leads) {
  thread->is_sampled = true;
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  thread->leads = leads;
  // What lies between is the batch being made ready: part of the update.
  if (*leads) rls_decide(thread, RLS_BACKPROPAGATION);
}

void rls_learn(struct rls_thread* thread) {
  refute_guess(thread);
  note_sampled(thread, true);
  rls_note_learning(thread);
  thread->has_stepped = false;
  // No evaluation learns: the program left the model in its mode.
  thread->evaluation_label = 0;
  if (thread->scope_depth > 0) rls_scope_leave(thread, RLS_EVALUATION_MODE);
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  resolve(thread, RLS_BACKPROPAGATION);
  rls_decide(thread, RLS_BACKPROPAGATION);
  rls_arm(thread);
}

void rls_learned(struct rls_thread* thread) { thread->learned_ns = rls_now_ns(); }

bool rls_enter_table(struct rls_thread* thread, const struct rls_scope* scope) {
  if (thread->environment_depth > 0) return false;
  thread->is_early = false;
  const bool is_outermost = thread->scope_depth == 0;
  const bool is_input = scope->phase == RLS_WAIT || scope->phase == RLS_DATA;
  // Who waits without a model is a worker between two actions, or none of ours; or its first
  // forward pass is yet to come.
  if (scope->phase == RLS_WAIT && scope->label == 0 && (!is_outermost || !thread->has_model)) {
    if (is_outermost) rls_arm(thread);
    return false;
  }
  if (is_outermost && is_input && !scope->gives) thread->is_fed = true;
  // Who resets environments and steps none hands that to others: to threads of a pool, say.
  if (is_outermost && scope->phase == RLS_WAIT && thread->is_pending && thread->steps_taken == 0)
    thread->has_environment = false;
  if (is_outermost && is_input && !thread->has_environment) {
    if (scope->phase == RLS_WAIT && thread->is_pending) thread->acts_by_waiting = true;
    resolve(thread, scope->phase);
  }
  return rls_scope_enter(thread, scope);
}

void rls_leave_table(struct rls_thread* thread, uint64_t key) {
  const enum rls_phase phase = rls_scope_leave(thread, key);
  if (phase == RLS_NO_PHASE || thread->scope_depth > 0) return;
  if (phase == RLS_WAIT || phase == RLS_DATA) thread->is_sampled = phase == RLS_DATA;
  if (thread->environment_depth == 0) rls_arm(thread);
}

static void begin_evaluation(struct rls_thread* thread) {
  if (thread->evaluation_label == 0 || thread->scope_depth > 0) return;
  const struct rls_scope scope = {RLS_EVALUATION_MODE, RLS_EVALUATION, thread->evaluation_label,
                                  true, false};
  rls_scope_enter(thread, &scope);
  thread->evaluation_label = 0;
}

void rls_enter_environment(struct rls_thread* thread) {
  if (thread->environment_depth == 0) {
    note_sampled(thread, false);
    resolve(thread, RLS_SIMULATION);
    begin_evaluation(thread);
  }
  rls_environment_enter(thread);
}

void rls_adopt(const struct rls_call* call) {
  PyObject* environment = rls_call_first(call);
  if (environment == NULL) return;
  const int known = rls_callbacks.adopted != NULL
                        ? PySet_Contains(rls_callbacks.adopted, (PyObject*)Py_TYPE(environment))
                        : 1;
  if (known < 0) PyErr_Clear();
  if (known == 0) call_back(ENVIRONMENTS, rls_callbacks.adopt, environment);
}

// Returns what a forward pass from a place that is not settled seems to be; RLS_NO_PHASE: nothing.
static enum rls_phase ask(PyObject* judge, uint64_t place, const struct rls_call* call) {
  // It may be taken away while it runs.
  Py_INCREF(judge);
  PyObject* number = PyLong_FromUnsignedLongLong(place);
  PyObject* arguments = number != NULL ? rls_call_positional(call) : NULL;
  PyObject* answer =
      arguments != NULL ? PyObject_CallFunctionObjArgs(judge, number, arguments, NULL) : NULL;
  Py_XDECREF(arguments);
  Py_XDECREF(number);
  Py_DECREF(judge);
  const long phase = answer != NULL ? PyLong_AsLong(answer) : -1;
  Py_XDECREF(answer);
  if (phase >= 0 && phase < RLS_PHASES) return (enum rls_phase)phase;
  // Ctrl-C and sys.exit() of a signal handler are the program's.
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return RLS_NO_PHASE;
  // It would fail again.
  note_failure(FORWARD_PASSES);
  Py_CLEAR(rls_callbacks.judge);
  return RLS_NO_PHASE;
}

// Where no acting, wait or data tells updates apart, each optimizer step ends one: what lies
// between it and the next forward pass is no learning.
static void end_update(struct rls_thread* thread) {
  if (thread->has_stepped && !thread->has_environment && !thread->is_fed && !thread->has_acted)
    rls_thread_end(thread);
  thread->has_stepped = false;
}

enum rls_forward rls_enter_forward(struct rls_thread* thread, const struct rls_call* call) {
  rls_disarm(thread);
  // Forward passes of a train() or of a learned simulator: none is a question.
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return RLS_FORWARD_TELLS;
  if (rls_callbacks.judge == NULL) return RLS_FORWARD_TELLS;
  end_update(thread);
  const uint64_t place = rls_place_of_call();
  if (place == 0) return RLS_FORWARD_TELLS;
  enum rls_phase phase = rls_place_phase(place);
  if (phase == RLS_NO_PHASE && rls_places_are_full()) return RLS_FORWARD_TELLS;
  if (phase == RLS_NO_PHASE) phase = ask(rls_callbacks.judge, place, call);
  if (phase == RLS_NO_PHASE) return RLS_FORWARD_ASKS;
  // No rollout ends where the thread learns: it is asked again, for the next epoch. What JAX
  // compiled and comes after the end of a rollout need not be a model: advantages are computed so.
  const bool is_advantage = thread->is_compiled && thread->phase == RLS_DATA;
  if (phase == RLS_DATA && (thread->phase == RLS_BACKPROPAGATION || is_advantage))
    return RLS_FORWARD_ASKS;
  rls_decide(thread, phase == RLS_DATA ? RLS_INFERENCE : phase);
  return phase == RLS_DATA ? RLS_FORWARD_ENDS_ROLLOUT : RLS_FORWARD_TELLS;
}

// Without an environment nothing else ends acting: it is the forward pass itself, or lasts to the
// next wait where those follow.
static void leave_acting(struct rls_thread* thread) {
  if (!thread->acts_by_waiting) rls_thread_switch(thread, RLS_NO_PHASE, 0);
  rls_arm(thread);
}

void rls_leave_forward(struct rls_thread* thread, enum rls_forward forward) {
  const bool is_alone = !thread->has_environment && thread->scope_depth == 0;
  if (is_alone && thread->phase == RLS_INFERENCE && forward != RLS_FORWARD_ENDS_ROLLOUT) {
    leave_acting(thread);
    return;
  }
  if (forward == RLS_FORWARD_TELLS) return;
  const bool is_data = forward == RLS_FORWARD_ENDS_ROLLOUT && thread->phase == RLS_INFERENCE;
  if (is_data) rls_decide(thread, RLS_DATA);
  rls_arm(thread);
}
