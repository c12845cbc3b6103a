// A call that came to a hook, as the interpreter passed it.
#ifndef RLS_CALL_H
#define RLS_CALL_H

#include <Python.h>
#include <stdbool.h>

// PEP 590, which the limited API does not show before Python 3.12.
typedef PyObject* (*rls_vectorcall)(PyObject* callable, PyObject* const* vector, size_t flagged,
                                    PyObject* names);

// Either a tuple and a dict, or, where `args` is NULL, a vector.
struct rls_call {
  PyObject* args;
  PyObject* kwargs;
  PyObject* const* vector;
  size_t flagged;   // how many positional arguments, and what may be done to the vector
  PyObject* names;  // of the arguments behind those
};

// Whether calls by vector can be passed on: from Python 3.11 on. They need no tuple.
bool rls_has_vectorcall(void);

// Returns what calls the function by vector; NULL where that cannot be done.
rls_vectorcall rls_vectorcall_of(PyObject* function);

// Calls the function in the same way.
PyObject* rls_call_on(PyObject* function, const struct rls_call* call);

// Returns the first positional argument, borrowed; NULL: there is none.
PyObject* rls_call_first(const struct rls_call* call);

// Returns the positional arguments as a new tuple; NULL with an exception set.
PyObject* rls_call_positional(const struct rls_call* call);

#endif  // RLS_CALL_H
