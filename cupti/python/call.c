#include "call.h"

// The highest bit of the number of arguments: the place before the first may be written to.
#define OFFSET_FLAG ((size_t)1 << (8 * sizeof(size_t) - 1))

// Both are exported from Python 3.11 on; NULL before.
extern PyObject* PyObject_Vectorcall(PyObject* callable, PyObject* const* vector, size_t flagged,
                                     PyObject* names) __attribute__((weak));
extern rls_vectorcall PyVectorcall_Function(PyObject* callable) __attribute__((weak));

bool rls_has_vectorcall(void) { return PyObject_Vectorcall != NULL; }

rls_vectorcall rls_vectorcall_of(PyObject* function) {
  const rls_vectorcall own = PyVectorcall_Function != NULL ? PyVectorcall_Function(function) : NULL;
  return own != NULL ? own : PyObject_Vectorcall;
}

PyObject* rls_call_on(PyObject* function, const struct rls_call* call) {
  if (call->args != NULL) return PyObject_Call(function, call->args, call->kwargs);
  return PyObject_Vectorcall(function, call->vector, call->flagged, call->names);
}

static Py_ssize_t count_of(const struct rls_call* call) {
  return (Py_ssize_t)(call->flagged & ~OFFSET_FLAG);
}

PyObject* rls_call_first(const struct rls_call* call) {
  if (call->args == NULL) return count_of(call) > 0 ? call->vector[0] : NULL;
  return PyTuple_Size(call->args) > 0 ? PyTuple_GetItem(call->args, 0) : NULL;
}

PyObject* rls_call_positional(const struct rls_call* call) {
  if (call->args != NULL) {
    Py_INCREF(call->args);
    return call->args;
  }
  const Py_ssize_t count = count_of(call);
  PyObject* arguments = PyTuple_New(count);
  for (Py_ssize_t index = 0; arguments != NULL && index < count; ++index) {
    Py_INCREF(call->vector[index]);
    PyTuple_SetItem(arguments, index, call->vector[index]);
  }
  return arguments;
}
