/*
 * A clock around calls into native code: `timed(callable)` is called like the callable, adds up the
 * CPU time that the calling thread spends inside, and counts. `cost_ns(n)` tells what one reading
 * of the clock adds to that time, from n calls of a function that does nothing.
 *
 * A call inside a timed call is not added again: the time is that of the outermost.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>
#include <time.h>

static _Thread_local int depth;

typedef struct {
  PyObject_HEAD vectorcallfunc call;
  PyObject* callable;
  long long calls;
  long long cpu_ns;
} Timed;

static long long cpu_now(void) {
  struct timespec now;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static PyObject* timed_call(PyObject* self, PyObject* const* arguments, size_t count,
                            PyObject* names) {
  Timed* timed = (Timed*)self;
  int is_outermost = depth++ == 0;
  long long before = is_outermost ? cpu_now() : 0;
  PyObject* result = PyObject_Vectorcall(timed->callable, arguments, count, names);

  if (is_outermost) timed->cpu_ns += cpu_now() - before;
  timed->calls++;
  depth--;
  return result;
}

static void timed_free(PyObject* self) {
  Py_XDECREF(((Timed*)self)->callable);
  Py_TYPE(self)->tp_free(self);
}

static PyMemberDef timed_members[] = {
    {"calls", T_LONGLONG, offsetof(Timed, calls), 0, NULL},
    {"cpu_ns", T_LONGLONG, offsetof(Timed, cpu_ns), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject timed_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "layer_clock.Timed",
    .tp_basicsize = sizeof(Timed),
    .tp_dealloc = timed_free,
    .tp_vectorcall_offset = offsetof(Timed, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_members = timed_members,
};

static PyObject* make_timed(PyObject* module, PyObject* callable) {
  Timed* made = PyObject_New(Timed, &timed_type);

  (void)module;
  if (!made) return NULL;
  made->call = timed_call;
  made->calls = made->cpu_ns = 0;
  made->callable = Py_NewRef(callable);
  return (PyObject*)made;
}

static PyObject* nothing(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  Py_RETURN_NONE;
}

static PyObject* cost_ns(PyObject* module, PyObject* argument) {
  long calls = PyLong_AsLong(argument);
  PyObject* empty = calls > 0 ? PyObject_GetAttrString(module, "nothing") : NULL;
  PyObject* timed = empty ? make_timed(module, empty) : NULL;
  double mean = 0;

  for (long index = 0; timed && index < calls; index++) Py_XDECREF(PyObject_CallNoArgs(timed));
  if (timed)
    mean = (double)((Timed*)timed)->cpu_ns / (double)calls;
  else if (!PyErr_Occurred())
    PyErr_SetString(PyExc_ValueError, "how many calls?");
  Py_XDECREF(timed);
  Py_XDECREF(empty);
  return timed ? PyFloat_FromDouble(mean) : NULL;
}

static PyMethodDef methods[] = {
    {"timed", make_timed, METH_O, "Return the callable with a clock around it."},
    {"nothing", nothing, METH_NOARGS, "Do nothing."},
    {"cost_ns", cost_ns, METH_O, "Return the mean that the clock adds to a call."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "layer_clock",
                                        .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_layer_clock(void) {
  return PyType_Ready(&timed_type) < 0 ? NULL : PyModule_Create(&definition);
}
