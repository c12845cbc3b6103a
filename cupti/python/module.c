// rlscope_phases._nvtx: the NVTX client and the hooks, for every CPython from 3.8 on.
#include <Python.h>
#include <stdbool.h>

#include "boundary.h"
#include "hook.h"
#include "nvtx_client.h"
#include "place.h"

static PyObject* available(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyBool_FromLong(rls_nvtx_available());
}

static PyObject* start(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyBool_FromLong(rls_phases_start());
}

// register(name) -> handle: 0 where no tool listens.
static PyObject* register_name(PyObject* module, PyObject* name) {
  (void)module;
  PyObject* encoded = PyUnicode_AsUTF8String(name);
  if (encoded == NULL) return NULL;
  void* handle = rls_nvtx_register(PyBytes_AsString(encoded));
  Py_DECREF(encoded);
  return PyLong_FromVoidPtr(handle);
}

static PyObject* push(PyObject* module, PyObject* handle) {
  (void)module;
  void* name = PyLong_AsVoidPtr(handle);
  if (name == NULL && PyErr_Occurred()) return NULL;
  rls_nvtx_push(name, 0, false);
  Py_RETURN_NONE;
}

static PyObject* pop(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  rls_nvtx_pop();
  Py_RETURN_NONE;
}

// mark(text): an instant that says something.
static PyObject* mark(PyObject* module, PyObject* text) {
  (void)module;
  PyObject* encoded = PyUnicode_AsUTF8String(text);
  if (encoded == NULL) return NULL;
  rls_nvtx_mark(PyBytes_AsString(encoded));
  Py_DECREF(encoded);
  Py_RETURN_NONE;
}

static bool parse_phase(PyObject* number, enum rls_phase* phase) {
  const long value = PyLong_AsLong(number);
  if (value < 0 || value >= RLS_PHASES) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such phase");
    return false;
  }
  *phase = (enum rls_phase)value;
  return true;
}

// suppose(phase): it seems to be that; resolve() will tell what it led to.
static PyObject* suppose(PyObject* module, PyObject* number) {
  (void)module;
  enum rls_phase phase;
  if (!parse_phase(number, &phase)) return NULL;
  struct rls_thread* thread = rls_thread_self();
  rls_decide(thread, phase);
  thread->is_pending = true;
  Py_RETURN_NONE;
}

// settle(place, phase): what forward passes from there are; DATA: data after it.
static PyObject* settle(PyObject* module, PyObject* args) {
  (void)module;
  unsigned long long place;
  PyObject* number;
  enum rls_phase phase;
  if (!PyArg_ParseTuple(args, "KO", &place, &number) || !parse_phase(number, &phase)) return NULL;
  rls_place_settle(place, phase);
  Py_RETURN_NONE;
}

// default_gap(phase): what a gap is when nothing in it tells.
static PyObject* default_gap(PyObject* module, PyObject* number) {
  (void)module;
  enum rls_phase phase;
  if (!parse_phase(number, &phase)) return NULL;
  rls_set_default_gap(phase);
  Py_RETURN_NONE;
}

static PyObject* phase(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyLong_FromLong(rls_thread_self()->phase);
}

static PyObject* is_sampled(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyBool_FromLong(rls_thread_self()->is_sampled);
}

static PyObject* learn(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  rls_learn(rls_thread_self());
  Py_RETURN_NONE;
}

// learned(): it, an optimizer step, has returned.
static PyObject* learned(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  struct rls_thread* thread = rls_thread_self();
  rls_learned(thread);
  thread->has_stepped = true;
  Py_RETURN_NONE;
}

// differentiated(): gradients are taken, here and now, or in what JAX traces.
static PyObject* differentiated(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  struct rls_thread* thread = rls_thread_self();
  thread->has_differentiated = true;
  // What steps environments as well is a training as a whole; without one in sight it may be.
  const bool is_whole =
      thread->has_traced_step || thread->has_traced_reset || !thread->has_environment;
  if (!thread->is_compiled || !is_whole) rls_learn(thread);
  Py_RETURN_NONE;
}

// label(number, text): what a framework calls ranges; False: the tool keeps none.
static PyObject* label(PyObject* module, PyObject* args) {
  (void)module;
  unsigned number;
  const char* text;
  if (!PyArg_ParseTuple(args, "Is", &number, &text)) return NULL;
  return PyBool_FromLong(rls_nvtx_label(number, text));
}

// enter(key, phase, label), leave(key): around what a framework times.
static PyObject* enter(PyObject* module, PyObject* args) {
  (void)module;
  unsigned long long key;
  PyObject* number;
  struct rls_scope scope = {.is_closing = true};
  if (!PyArg_ParseTuple(args, "KOI", &key, &number, &scope.label) ||
      !parse_phase(number, &scope.phase))
    return NULL;
  scope.key = key;
  return PyBool_FromLong(rls_enter_table(rls_thread_self(), &scope));
}

static PyObject* leave(PyObject* module, PyObject* number) {
  (void)module;
  const unsigned long long key = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred()) return NULL;
  rls_leave_table(rls_thread_self(), key);
  Py_RETURN_NONE;
}

// evaluates(label): from its next call into an environment on the thread evaluates; 0: it does not.
static PyObject* evaluates(PyObject* module, PyObject* number) {
  (void)module;
  const unsigned long value = PyLong_AsUnsignedLong(number);
  if (PyErr_Occurred()) return NULL;
  rls_thread_self()->evaluation_label = (uint32_t)value;
  Py_RETURN_NONE;
}

// prepares(): this thread is about to learn: its forward passes are to be judged from here on.
static PyObject* prepares(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  struct rls_thread* thread = rls_thread_self();
  thread->is_early = !rls_has_begun();
  rls_arm(thread);
  Py_RETURN_NONE;
}

// is_early(): whether it has neither learned nor simulated nor waited since, nor anybody before.
static PyObject* is_early(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyBool_FromLong(rls_thread_self()->is_early);
}

// compiled_began(), compiled_ended(): around a call of what torch compiled, which has learned up to
// its end if it learned: no step of its optimizer is seen.
static PyObject* compiled_began(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  rls_thread_self()->called_ns = rls_now_ns();
  Py_RETURN_NONE;
}

static PyObject* compiled_ended(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  struct rls_thread* thread = rls_thread_self();
  if (thread->called_ns != 0 && thread->learned_ns > thread->called_ns) rls_learned(thread);
  thread->called_ns = 0;
  Py_RETURN_NONE;
}

// hold(key): until leave(key) the thread stays in its phase; False: it has none.
static PyObject* hold(PyObject* module, PyObject* number) {
  (void)module;
  const unsigned long long key = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred()) return NULL;
  struct rls_thread* thread = rls_thread_self();
  const bool has_phase = thread->phase != RLS_NO_PHASE && thread->scope_depth == 0;
  const struct rls_scope scope = {key, thread->phase, thread->label, false, false};
  if (!has_phase || !rls_scope_enter(thread, &scope)) Py_RETURN_FALSE;
  // Also where learning ended a while ago: what is compiled belongs to what comes.
  thread->before = scope.phase;
  thread->before_label = scope.label;
  Py_RETURN_TRUE;
}

// state(): whether this thread steps an environment, whether workers step for it, whether it is in
// what JAX compiled, and how often it took a step.
static PyObject* state(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  const struct rls_thread* thread = rls_thread_self();
  return Py_BuildValue("iiiK", thread->has_environment, thread->acts_by_waiting,
                       thread->is_compiled, (unsigned long long)thread->steps_taken);
}

// end(): close the range that is open.
static PyObject* end(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  rls_thread_end(rls_thread_self());
  Py_RETURN_NONE;
}

// None: nothing.
static void keep(PyObject** place, PyObject* value) {
  PyObject* old = *place;
  *place = value != Py_None ? value : NULL;
  Py_XINCREF(*place);
  Py_XDECREF(old);
}

// connect(bound_method, adopt, adopted, failed)
static PyObject* connect(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *bound_method, *adopt, *adopted, *failed;
  if (!PyArg_ParseTuple(args, "OOOO", &bound_method, &adopt, &adopted, &failed)) return NULL;
  keep(&rls_callbacks.bound_method, bound_method);
  keep(&rls_callbacks.adopt, adopt);
  keep(&rls_callbacks.adopted, adopted);
  keep(&rls_callbacks.failed, failed);
  Py_RETURN_NONE;
}

// watch(judge, resolve): what is asked about forward passes, and hears what they led to.
static PyObject* watch(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *judge, *resolve;
  if (!PyArg_ParseTuple(args, "OO", &judge, &resolve)) return NULL;
  keep(&rls_callbacks.judge, judge);
  keep(&rls_callbacks.resolve, resolve);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"available", available, METH_NOARGS, "Whether an NVTX tool listens; loads it."},
    {"register", register_name, METH_O, "Return the tool's handle of a name."},
    {"push", push, METH_O, "Open a range, given the handle of its name."},
    {"pop", pop, METH_NOARGS, "Close the innermost range."},
    {"mark", mark, METH_O, "Mark an instant with a text."},
    {"start", start, METH_NOARGS, "Make the phases ready; False: no tool listens."},
    {"connect", connect, METH_VARARGS, "Take what hooks call."},
    {"watch", watch, METH_VARARGS, "Take what judges forward passes."},
    {"suppose", suppose, METH_O, "Enter a phase, and ask to be reported."},
    {"settle", settle, METH_VARARGS, "Tell what forward passes from a place are."},
    {"default_gap", default_gap, METH_O, "Set the phase of a gap in which nothing tells."},
    {"phase", phase, METH_NOARGS, "Return the phase of this thread."},
    {"is_sampled", is_sampled, METH_NOARGS, "Whether a replay buffer was read in this gap."},
    {"learn", learn, METH_NOARGS, "A backward pass or an optimizer step begins."},
    {"learned", learned, METH_NOARGS, "An optimizer step has ended."},
    {"differentiated", differentiated, METH_NOARGS, "Gradients are taken, or traced."},
    {"label", label, METH_VARARGS, "Tell what a framework calls ranges, by a number."},
    {"enter", enter, METH_VARARGS, "A timer of a framework begins: key, phase, label."},
    {"leave", leave, METH_O, "It ends, given its key."},
    {"evaluates", evaluates, METH_O, "An evaluation begins with the next call to simulate."},
    {"prepares", prepares, METH_NOARGS, "This thread is about to learn."},
    {"is_early", is_early, METH_NOARGS, "Whether it has done nothing else since."},
    {"compiled_began", compiled_began, METH_NOARGS, "A call of what torch compiled begins."},
    {"compiled_ended", compiled_ended, METH_NOARGS, "It has ended."},
    {"hold", hold, METH_O, "Keep this thread in its phase, until it leaves the key."},
    {"state", state, METH_NOARGS,
     "Return what is known of this thread: it steps environments, for example."},
    {"end", end, METH_NOARGS, "Close the open range of this thread."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject* module) {
  static bool is_loaded;
  // The state above is one per process: a second interpreter has no phases.
  if (is_loaded) {
    PyErr_SetString(PyExc_ImportError, "loaded already, by another interpreter");
    return -1;
  }
  PyObject* hook_type = rls_make_hook_type();
  if (hook_type == NULL) return -1;
  if (PyModule_AddObject(module, "Hook", hook_type) != 0) {
    Py_DECREF(hook_type);
    return -1;
  }
  is_loaded = true;
  return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void*)execute}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "_nvtx",
                                        "The NVTX client and the hooks.",
                                        0,
                                        methods,
                                        slots,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__nvtx(void) { return PyModuleDef_Init(&definition); }
