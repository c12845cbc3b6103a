#include "steps.h"

#define UNKNOWN (-1)

// Returns the length of a batch; 1 for what is none: a number, or the agents of one environment.
static int64_t batch_of(PyObject* value) {
  // The last type met that has no length: numpy.bool_, say. To ask it again would cost an
  // exception.
  static PyTypeObject* scalar;
  if (value == Py_None || PyBool_Check(value) || PyFloat_Check(value) || PyLong_Check(value))
    return 1;
  if (PyDict_Check(value) || Py_TYPE(value) == scalar) return 1;
  const Py_ssize_t size = PyObject_Size(value);
  if (size >= 0) return size;
  const int has_none = PyErr_ExceptionMatches(PyExc_TypeError);
  PyErr_Clear();
  if (!has_none) return UNKNOWN;
  // Arrays have a length or not by their shape, and are rarely asked without.
  if (!PyObject_HasAttrString(value, "__len__")) {
    PyTypeObject* type = Py_TYPE(value);
    Py_INCREF((PyObject*)type);
    Py_XDECREF((PyObject*)scalar);
    scalar = type;
  }
  return 1;
}

// A step returns (observation, reward, is it over, ...). The flag is one for each environment,
// while a reward may be several numbers of one environment. What has (observation, reward,
// information) tells by its reward.
static int64_t of_result(PyObject* result) {
  if (!PyTuple_Check(result) || PyTuple_Size(result) < 3) return UNKNOWN;
  PyObject* flags = PyTuple_GetItem(result, 2);
  return batch_of(PyDict_Check(flags) ? PyTuple_GetItem(result, 1) : flags);
}

static int64_t of_action(const struct rls_call* call) {
  PyObject* arguments = rls_call_positional(call);
  int64_t count = UNKNOWN;
  if (arguments != NULL && PyTuple_Size(arguments) > 1) {
    PyObject* actions = PyTuple_GetItem(arguments, 1);
    if (!PyDict_Check(actions)) count = batch_of(actions);
  }
  Py_XDECREF(arguments);
  return count;
}

static int64_t of_batch_size(const struct rls_call* call) {
  PyObject* environment = rls_call_first(call);
  if (environment == NULL) return UNKNOWN;
  PyObject* shape = PyObject_GetAttrString(environment, "batch_size");
  if (shape == NULL) return UNKNOWN;
  int64_t count = PyTuple_Check(shape) ? 1 : UNKNOWN;
  for (Py_ssize_t index = 0; count >= 0 && index < PyTuple_Size(shape); ++index) {
    const long long size = PyLong_AsLongLong(PyTuple_GetItem(shape, index));
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) count = UNKNOWN;
  }
  Py_DECREF(shape);
  return count;
}

int64_t rls_steps_of(enum rls_steps way, const struct rls_call* call, PyObject* result) {
  int64_t count = UNKNOWN;
  if (way == RLS_STEPS_NONE) return 0;
  if (way == RLS_STEPS_ONE) return 1;
  if (way == RLS_STEPS_RESULT) count = of_result(result);
  if (way == RLS_STEPS_ACTION) count = of_action(call);
  if (way == RLS_STEPS_BATCH_SIZE) count = of_batch_size(call);
  if (PyErr_Occurred()) PyErr_Clear();
  return count;
}
