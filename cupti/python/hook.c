#include "hook.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "boundary.h"
#include "call.h"
#include "steps.h"

// Py_TPFLAGS_METHOD_DESCRIPTOR, which not every version shows to users of the limited API:
// instance.method(...) calls the hook without making a bound method first.
#define METHOD_DESCRIPTOR (1UL << 17)
// Py_TPFLAGS_HAVE_VECTORCALL.
#define HAVE_VECTORCALL (1UL << 11)

struct hook {
  PyObject_HEAD;
  rls_vectorcall vectorcall;
  PyObject* function;
  rls_vectorcall inner;  // what calls the function by vector, as it was when the hook was made
  PyObject* watcher;     // of a timer; NULL: none
  PyObject* weak_references;
  enum rls_hook_kind kind;
  enum rls_phase phase;
  enum rls_steps steps;
  uint32_t label;
  // Nobody said that this is an environment: it looks like one. It is none if it learns, or if
  // what it returns is no step.
  bool is_guess;
  bool is_refuted;
  // Of what JAX compiles: it takes gradients; it steps environments, or resets them.
  bool learns;
  bool simulates;
  uint8_t calls;
  // Of a buffer that is read: learning followed, the last time.
  bool leads;
  bool is_kept;
};

// Python 3.9 made instances of such types own a reference to their type, for the collector to see.
static bool visits_type;

static void check_guess(struct hook* self, PyObject* result) {
  if (!self->is_guess || self->kind != RLS_HOOK_STEP || result == NULL) return;
  if (!PyTuple_Check(result) || PyTuple_Size(result) < 3) self->is_refuted = true;
}

static PyObject* invoke(struct hook* self, const struct rls_call* call) {
  return rls_call_on(self->function, call);
}

// Calls the watcher with the same arguments; false with an exception set. It is no function around
// ours: some look who called them, for what they log.
static bool is_watched(struct hook* self, const struct rls_call* call) {
  if (self->watcher == NULL) return true;
  PyObject* seen = rls_call_on(self->watcher, call);
  Py_XDECREF(seen);
  return seen != NULL;
}

static void note_traced(struct rls_thread* thread, bool is_step) {
  *(is_step ? &thread->has_traced_step : &thread->has_traced_reset) = true;
}

static PyObject* call_environment(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  if (self->is_refuted) return invoke(self, call);
  const uint32_t incarnation = thread->incarnation;
  bool* outer_guess = thread->is_refuted;
  if (self->kind == RLS_HOOK_RESET && thread->environment_depth == 0) rls_adopt(call);
  // It is traced, and runs later: call_compiled.
  if (thread->is_compiled) {
    note_traced(thread, self->kind == RLS_HOOK_STEP);
    return invoke(self, call);
  }
  if (self->is_guess && thread->environment_depth == 0) {
    thread->is_refuted = &self->is_refuted;
    thread->guessed_steps = 0;
  }
  rls_enter_environment(thread);
  PyObject* result = invoke(self, call);
  // A child that was forked in the call starts without a phase.
  if (thread->incarnation != incarnation) return result;
  thread->is_refuted = outer_guess;
  // It learned, and the depth was reset then.
  if (self->is_refuted) return result;
  check_guess(self, result);
  // It may prove to be none: what it called was one then.
  if (result != NULL && thread->environment_depth == 2 && outer_guess != NULL &&
      self->steps != RLS_STEPS_NONE)
    thread->guessed_steps += rls_steps_of(self->steps, call, result);
  // What an exception ended is no step. What others contain is theirs to count.
  if (result != NULL && thread->environment_depth == 1 && self->steps != RLS_STEPS_NONE)
    rls_environment_count(thread, rls_steps_of(self->steps, call, result));
  if (thread->incarnation != incarnation) return result;
  rls_environment_leave(thread);
  return result;
}

// It lives on: the thread will say what this led to.
static void note_sampled(struct hook* self, struct rls_thread* thread) {
  if (!self->is_kept) Py_INCREF((PyObject*)self);
  self->is_kept = true;
  rls_sampled(thread, &self->leads);
}

static PyObject* call_scope(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  if (thread->environment_depth > 0 || !rls_has_begun()) return invoke(self, call);
  const uint32_t incarnation = thread->incarnation;
  // Acting is acting, wherever the call to do so stands.
  if (self->phase == RLS_INFERENCE) rls_decide(thread, RLS_INFERENCE);
  // What follows a whole train() is not known; what surrounds the rest goes on.
  const bool is_learning = self->phase == RLS_BACKPROPAGATION;
  const struct rls_scope scope = {(uintptr_t)&incarnation, self->phase, 0, is_learning, false};
  const bool is_kept = rls_scope_enter(thread, &scope);
  PyObject* result = invoke(self, call);
  if (thread->incarnation != incarnation) return result;
  if (is_kept) rls_scope_leave(thread, scope.key);
  if (self->kind == RLS_HOOK_SAMPLE) note_sampled(self, thread);
  if (is_learning && thread->scope_depth == 0) rls_arm(thread);
  return result;
}

static PyObject* call_table(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  const uint32_t incarnation = thread->incarnation;
  const struct rls_scope scope = {(uintptr_t)&incarnation, self->phase, self->label, true,
                                  self->kind == RLS_HOOK_GIVE};
  const bool is_kept = rls_enter_table(thread, &scope);
  PyObject* result = invoke(self, call);
  if (is_kept && thread->incarnation == incarnation) rls_leave_table(thread, scope.key);
  return result;
}

static void finish(struct rls_thread* thread) {
  if (thread->environment_depth > 0 || thread->scope_depth > 0) return;
  rls_thread_end(thread);
}

static PyObject* call_finish(struct hook* self, const struct rls_call* call) {
  if (self->kind == RLS_HOOK_CLOSE) finish(rls_thread_self());
  PyObject* result = invoke(self, call);
  // What the call did may have begun a phase.
  finish(rls_thread_self());
  return result;
}

static PyObject* call_learn(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  const uint32_t incarnation = thread->incarnation;
  rls_learn(thread);
  PyObject* result = invoke(self, call);
  if (thread->incarnation == incarnation) rls_learned(thread);
  return result;
}

// Every call of every module comes through here.
static PyObject* call_forward(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  if (!thread->is_armed) return invoke(self, call);
  const uint32_t incarnation = thread->incarnation;
  const enum rls_forward forward = rls_enter_forward(thread, call);
  if (PyErr_Occurred()) return NULL;
  PyObject* result = invoke(self, call);
  if (thread->incarnation == incarnation) rls_leave_forward(thread, forward);
  return result;
}

// A call into environments that were traced. How many steps it is was not seen.
static PyObject* call_simulation(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  const uint32_t incarnation = thread->incarnation;
  rls_enter_environment(thread);
  PyObject* result = invoke(self, call);
  if (thread->incarnation != incarnation) return result;
  if (result != NULL && thread->environment_depth == 1 && self->steps != RLS_STEPS_NONE)
    rls_environment_count(thread, -1);
  rls_environment_leave(thread);
  return result;
}

// Where it is compiled, in its first call, its Python code runs once: gradients and environments
// are seen then. One that does both is a training as a whole, and has no phase.
static void learn_from_trace(struct hook* self, const struct rls_thread* thread) {
  const bool has_environment = thread->has_traced_step || thread->has_traced_reset;
  if (thread->has_differentiated) self->learns = !has_environment;
  if (has_environment || thread->has_differentiated) self->simulates = !thread->has_differentiated;
  if (has_environment) self->steps = thread->has_traced_step ? RLS_STEPS_UNKNOWN : RLS_STEPS_NONE;
}

// Without an environment in sight it may hold one, and be a training as a whole: what is an update
// is called again and again.
static bool is_update(const struct hook* self, const struct rls_thread* thread) {
  return self->learns && (thread->has_environment || self->calls >= RLS_REPEATED);
}

// It is no update: the one that was before has ended, if that was one.
static PyObject* call_anything(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  if (thread->phase == RLS_BACKPROPAGATION && thread->scope_depth == 0)
    rls_thread_switch(thread, RLS_NO_PHASE, 0);
  return invoke(self, call);
}

static PyObject* call_compiled(struct hook* self, const struct rls_call* call) {
  struct rls_thread* thread = rls_thread_self();
  // It is traced as a part of another.
  if (thread->is_compiled) {
    if (self->simulates) note_traced(thread, self->steps != RLS_STEPS_NONE);
    return invoke(self, call);
  }
  const uint32_t incarnation = thread->incarnation;
  thread->is_compiled = true;
  thread->has_differentiated = thread->has_traced_step = thread->has_traced_reset = false;
  if (self->calls < UINT8_MAX) ++self->calls;
  if (self->calls == 1 && self->watcher != NULL && !is_watched(self, call)) {
    thread->is_compiled = false;
    return NULL;
  }
  PyObject* result;
  if (is_update(self, thread))
    result = call_learn(self, call);
  else if (self->simulates)
    result = call_simulation(self, call);
  else if (thread->has_environment)
    result = call_forward(self, call);
  else
    // Anything can be compiled: without an environment nothing says that it is a model.
    result = call_anything(self, call);
  if (thread->incarnation != incarnation) return result;
  thread->is_compiled = false;
  learn_from_trace(self, thread);
  if (thread->has_differentiated && is_update(self, thread)) rls_learned(thread);
  return result;
}

static PyObject* call_begin(struct hook* self, const struct rls_call* call) {
  PyObject* result = invoke(self, call);
  if (result != NULL && !is_watched(self, call)) Py_CLEAR(result);
  return result;
}

static PyObject* call_end(struct hook* self, const struct rls_call* call) {
  return is_watched(self, call) ? invoke(self, call) : NULL;
}

static PyObject* call_hook(PyObject* object, const struct rls_call* call) {
  typedef PyObject* (*call_function)(struct hook*, const struct rls_call*);
  static const call_function kCalls[RLS_HOOK_KINDS] = {
      [RLS_HOOK_STEP] = call_environment,  [RLS_HOOK_RESET] = call_environment,
      [RLS_HOOK_FINISH] = call_finish,     [RLS_HOOK_SCOPE] = call_scope,
      [RLS_HOOK_SAMPLE] = call_scope,      [RLS_HOOK_LEARN] = call_learn,
      [RLS_HOOK_FORWARD] = call_forward,   [RLS_HOOK_CLOSE] = call_finish,
      [RLS_HOOK_TABLE] = call_table,       [RLS_HOOK_GIVE] = call_table,
      [RLS_HOOK_COMPILED] = call_compiled, [RLS_HOOK_BEGIN] = call_begin,
      [RLS_HOOK_END] = call_end,
  };
  struct hook* self = (struct hook*)object;
  // The class may lose its hook while the call runs.
  Py_INCREF(object);
  PyObject* result = kCalls[self->kind](self, call);
  Py_DECREF(object);
  return result;
}

static PyObject* call_by_tuple(PyObject* object, PyObject* args, PyObject* kwargs) {
  return call_hook(object, &(struct rls_call){.args = args, .kwargs = kwargs});
}

static PyObject* call_by_vector(PyObject* object, PyObject* const* vector, size_t flagged,
                                PyObject* names) {
  return call_hook(object,
                   &(struct rls_call){.vector = vector, .flagged = flagged, .names = names});
}

// Where no thread has a forward pass to be judged, as most of the time, this is all there is to do.
// It is short because each line of code that it takes is one that the program has to fetch again.
static PyObject* call_forward_by_vector(PyObject* object, PyObject* const* vector, size_t flagged,
                                        PyObject* names) {
  const struct hook* self = (const struct hook*)object;
  if (atomic_load_explicit(&rls_armed_threads, memory_order_relaxed) == 0)
    return self->inner(self->function, vector, flagged, names);
  return call_by_vector(object, vector, flagged, names);
}

static PyObject* hook_bind(PyObject* self, PyObject* instance, PyObject* owner) {
  (void)owner;
  if (instance == NULL || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyObject_CallFunctionObjArgs(rls_callbacks.bound_method, self, instance, NULL);
}

static PyObject* hook_wrapped(PyObject* self, void* closure) {
  (void)closure;
  PyObject* function = ((struct hook*)self)->function;
  Py_INCREF(function);
  return function;
}

// As functions do: where it can be found again. Those of a program's main file are taken apart by
// cloudpickle, which sees the function by its __class__, code and globals.
static PyObject* hook_reduce(PyObject* self, PyObject* protocol) {
  (void)protocol;
  PyObject* function = ((struct hook*)self)->function;
  if (((struct hook*)self)->kind != RLS_HOOK_COMPILED)
    return PyObject_GetAttrString(function, "__qualname__");
  // What JAX compiles knows by itself how it is pickled: as what typing.cast(None, it) returns.
  PyObject* typing = PyImport_ImportModule("typing");
  PyObject* cast = typing != NULL ? PyObject_GetAttrString(typing, "cast") : NULL;
  PyObject* reduced = cast != NULL ? Py_BuildValue("O(OO)", cast, Py_None, function) : NULL;
  Py_XDECREF(cast);
  Py_XDECREF(typing);
  return reduced;
}

static PyObject* hook_getattro(PyObject* self, PyObject* name) {
  static const char* const kOwn[] = {"__wrapped__", "__reduce__", "__reduce_ex__", "__get__"};
  for (size_t index = 0; index < sizeof(kOwn) / sizeof(*kOwn); ++index)
    if (PyUnicode_CompareWithASCIIString(name, kOwn[index]) == 0)
      return PyObject_GenericGetAttr(self, name);
  return PyObject_GetAttr(((struct hook*)self)->function, name);
}

static int hook_setattro(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(((struct hook*)self)->function, name, value);
}

static PyObject* hook_repr(PyObject* self) { return PyObject_Repr(((struct hook*)self)->function); }

static PyObject* hook_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *function = NULL, *watcher = NULL;
  int kind = 0, phase = 0, is_guess = 0, steps = 0;
  unsigned label = 0;
  static char* names[] = {"function", "kind",  "phase",   "is_guess",
                          "steps",    "label", "watcher", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|ipiIO", names, &function, &kind, &phase,
                                   &is_guess, &steps, &label, &watcher))
    return NULL;
  if (!PyCallable_Check(function) || kind < 0 || kind >= RLS_HOOK_KINDS || phase < 0 ||
      phase >= RLS_PHASES || steps < 0 || steps >= RLS_STEPS_WAYS) {
    PyErr_SetString(PyExc_ValueError, "no such hook");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  struct hook* self = (struct hook*)allocate(type, 0);
  if (self == NULL) return NULL;
  Py_INCREF(function);
  self->function = function;
  Py_XINCREF(watcher);
  self->watcher = watcher;
  self->inner = rls_vectorcall_of(function);
  self->vectorcall = kind == RLS_HOOK_FORWARD ? call_forward_by_vector : call_by_vector;
  self->kind = (enum rls_hook_kind)kind;
  self->phase = (enum rls_phase)phase;
  self->simulates = kind == RLS_HOOK_COMPILED && phase == RLS_SIMULATION;
  self->is_guess = is_guess != 0;
  self->steps = (enum rls_steps)steps;
  self->label = label;
  return (PyObject*)self;
}

static int hook_traverse(PyObject* self, visitproc visit, void* arg) {
  if (visits_type) Py_VISIT(Py_TYPE(self));
  Py_VISIT(((struct hook*)self)->function);
  Py_VISIT(((struct hook*)self)->watcher);
  return 0;
}

static int hook_clear(PyObject* self) {
  Py_CLEAR(((struct hook*)self)->function);
  Py_CLEAR(((struct hook*)self)->watcher);
  return 0;
}

static void hook_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (((struct hook*)self)->weak_references != NULL) PyObject_ClearWeakRefs(self);
  hook_clear(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

PyObject* rls_make_hook_type(void) {
  static PyMemberDef members[] = {
      {"__weaklistoffset__", T_PYSSIZET, offsetof(struct hook, weak_references), READONLY, NULL},
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct hook, vectorcall), READONLY, NULL},
      {NULL, 0, 0, 0, NULL},
  };
  static PyGetSetDef attributes[] = {
      {"__wrapped__", hook_wrapped, NULL, NULL, NULL},
      {NULL, NULL, NULL, NULL, NULL},
  };
  static PyMethodDef methods[] = {
      {"__reduce__", hook_reduce, METH_NOARGS, NULL},
      {"__reduce_ex__", hook_reduce, METH_O, NULL},
      {NULL, NULL, 0, NULL},
  };
  static PyType_Slot slots[] = {
      {Py_tp_new, hook_new},
      {Py_tp_dealloc, hook_dealloc},
      {Py_tp_traverse, hook_traverse},
      {Py_tp_clear, hook_clear},
      {Py_tp_call, call_by_tuple},
      {Py_tp_descr_get, hook_bind},
      {Py_tp_getattro, hook_getattro},
      {Py_tp_setattro, hook_setattro},
      {Py_tp_repr, hook_repr},
      {Py_tp_members, members},
      {Py_tp_getset, attributes},
      {Py_tp_methods, methods},
      {0, NULL},
  };
  static PyType_Spec spec = {"rlscope_phases._nvtx.Hook", sizeof(struct hook), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | METHOD_DESCRIPTOR, slots};
  PyObject* version = PySys_GetObject("version_info");
  PyObject* minor = version != NULL ? PySequence_GetItem(version, 1) : NULL;
  if (minor == NULL) return NULL;
  visits_type = PyLong_AsLong(minor) >= 9;
  // Older ones would look for it in another way, whoever brought the symbol into the process.
  if (PyLong_AsLong(minor) >= 11 && rls_has_vectorcall()) spec.flags |= HAVE_VECTORCALL;
  Py_DECREF(minor);
  return PyType_FromSpec(&spec);
}
