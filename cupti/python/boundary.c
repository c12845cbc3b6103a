#include "boundary.h"

// A thread that only steps environments keeps the hook in place, and another thread's forward
// passes pay for it: after so many of both it asks less often.
#define FOREIGN_PASSES_BEFORE_REST 1000
#define UNDECIDED_GAPS_BEFORE_REST 64
#define REST_GAPS 16

static atomic_uint foreign_passes;

struct rls_callbacks rls_callbacks;

static void call_back(PyObject* callback, PyObject* argument) {
  if (callback == NULL) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* result = PyObject_CallFunctionObjArgs(callback, argument, NULL);
  if (result == NULL) PyErr_Clear();
  Py_XDECREF(result);
  PyErr_Restore(type, value, traceback);
}

void rls_arm(struct rls_thread* thread) {
  if (thread->is_armed || rls_callbacks.forward_hooks == NULL) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyObject_SetItem(rls_callbacks.forward_hooks, rls_callbacks.forward_key,
                       rls_callbacks.forward_hook) == 0) {
    thread->is_armed = true;
    atomic_fetch_add(&rls_armed_threads, 1);
  } else {
    PyErr_Clear();
  }
  PyErr_Restore(type, value, traceback);
}

void rls_disarm(struct rls_thread* thread) {
  if (thread->is_armed) {
    thread->is_armed = false;
    atomic_fetch_sub(&rls_armed_threads, 1);
  }
  if (atomic_load(&rls_armed_threads) > 0 || rls_callbacks.forward_hooks == NULL) return;
  // Not there: a forked child, or another thread was faster.
  if (PyObject_DelItem(rls_callbacks.forward_hooks, rls_callbacks.forward_key) != 0) PyErr_Clear();
}

bool rls_is_watching(struct rls_thread* thread) {
  if (!thread->is_armed) {
    // With nobody armed it was left by a thread that ended, or by the parent.
    if (atomic_load(&rls_armed_threads) > 0) atomic_fetch_add(&foreign_passes, 1);
    rls_disarm(thread);
    return false;
  }
  if (thread->environment_depth == 0 && thread->scope_depth == 0) return true;
  // Forward passes of a train() or of a learned simulator: none is a question.
  rls_disarm(thread);
  return false;
}

static void resolve(struct rls_thread* thread, enum rls_phase phase) {
  if (!thread->is_pending) return;
  thread->is_pending = false;
  PyObject* number = PyLong_FromLong(phase);
  call_back(rls_callbacks.resolve, number);
  Py_XDECREF(number);
}

// No simulator learns: the call on the stack is not an environment's.
static void refute_guess(struct rls_thread* thread) {
  if (thread->is_refuted == NULL) return;
  *thread->is_refuted = true;
  thread->is_refuted = NULL;
  thread->environment_depth = 0;
}

void rls_learn(struct rls_thread* thread) {
  if (!rls_has_environment()) return;
  refute_guess(thread);
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  resolve(thread, RLS_BACKPROPAGATION);
  rls_decide(thread, RLS_BACKPROPAGATION);
  rls_arm(thread);
}

void rls_enter_environment(struct rls_thread* thread) {
  if (thread->environment_depth == 0) resolve(thread, RLS_SIMULATION);
  rls_environment_enter(thread);
}

void rls_leave_environment(struct rls_thread* thread) {
  rls_environment_leave(thread);
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  const bool rests = thread->gaps_undecided >= UNDECIDED_GAPS_BEFORE_REST &&
                     thread->gaps_undecided % REST_GAPS != 0 &&
                     atomic_load(&foreign_passes) >= FOREIGN_PASSES_BEFORE_REST;
  if (rests) {
    rls_disarm(thread);
  } else {
    rls_arm(thread);
  }
}

void rls_adopt(PyObject* arguments) {
  if (PyTuple_Size(arguments) < 1) return;
  PyObject* environment = PyTuple_GetItem(arguments, 0);
  const int known = rls_callbacks.adopted != NULL
                        ? PySet_Contains(rls_callbacks.adopted, (PyObject*)Py_TYPE(environment))
                        : 1;
  if (known < 0) PyErr_Clear();
  if (known == 0) call_back(rls_callbacks.adopt, environment);
}
