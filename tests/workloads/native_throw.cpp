// C++ exceptions below calls from Python, as bindings have them: thrown deep inside and caught
// where Python's call came in, also after a detour through Python.
//
//   catch_own(): throws and catches itself           -> 1
//   translate(): catches, and raises RuntimeError
//   through_python(function): throws once `function`, which may call into here, has failed
//   counts() -> {name: calls entered}
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdexcept>

namespace {

enum { kCatchOwn, kTranslate, kThroughPython, kFunctions };
const char* const kNames[kFunctions] = {"catch_own", "translate", "through_python"};
long long entered[kFunctions];

// Frames with something to unwind between the throw and the catch.
struct Guard {
  int* count;
  ~Guard() { ++*count; }
};

__attribute__((noinline)) int Throw(int depth, int* unwound) {
  Guard guard{unwound};
  if (depth == 0) throw std::runtime_error("as asked for");
  return Throw(depth - 1, unwound) + 1;
}

PyObject* CatchOwn(PyObject*, PyObject*) {
  ++entered[kCatchOwn];
  int unwound = 0;
  try {
    Throw(5, &unwound);
  } catch (const std::runtime_error&) {
  }
  return PyLong_FromLong(unwound == 6);
}

PyObject* Translate(PyObject*, PyObject*) {
  ++entered[kTranslate];
  int unwound = 0;
  try {
    Throw(5, &unwound);
  } catch (const std::runtime_error& error) {
    return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
  }
  return nullptr;
}

PyObject* ThroughPython(PyObject*, PyObject* function) {
  ++entered[kThroughPython];
  int unwound = 0;
  try {
    PyObject* result = PyObject_CallNoArgs(function);
    if (result == nullptr) Throw(5, &unwound);
    return result;
  } catch (const std::runtime_error&) {
    return nullptr;  // Python's own exception is still set.
  }
}

PyObject* Counts(PyObject*, PyObject*) {
  PyObject* told = PyDict_New();
  for (int function = 0; told != nullptr && function < kFunctions; ++function) {
    PyObject* number = PyLong_FromLongLong(entered[function]);
    PyDict_SetItemString(told, kNames[function], number);
    Py_XDECREF(number);
  }
  return told;
}

PyMethodDef methods[] = {
    {"catch_own", CatchOwn, METH_NOARGS, "Throw and catch."},
    {"translate", Translate, METH_NOARGS, "Throw, and raise RuntimeError."},
    {"through_python", ThroughPython, METH_O, "Call a function; throw if it fails."},
    {"counts", Counts, METH_NOARGS, "Return how often each was entered."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native_throw", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_native_throw() { return PyModuleDef_Init(&definition); }
