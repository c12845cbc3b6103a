/*
 * CartPole in C, a simulator of our own whose calls are counted where they happen.
 *
 *   step(action, substeps) -> (x, v, angle, spin, fallen)   reset(seed)   observe()
 *   drive(policy, steps): the native code asks the Python function `policy` for each action
 *   fail(): raises ValueError            leave(): a call of its own that longjmp(3) ends
 *   blunt(): begins with an instruction that no probe can stand on cheaply
 *   counts() -> {name: calls entered}    module of its own state per process: forks count apart
 *
 * A call of step() takes about 12 ns per substep and keeps the GIL.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <setjmp.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { STEP, RESET, OBSERVE, DRIVE, FAIL, LEAVE, LEFT, BLUNT, FUNCTIONS };
static const char* const names[FUNCTIONS] = {"step", "reset", "observe", "drive",
                                             "fail", "leave", "left",    "blunt"};
static long long entered[FUNCTIONS];
static _Thread_local double state[4];
static _Thread_local jmp_buf back;

static void count(int function) { __atomic_fetch_add(&entered[function], 1, __ATOMIC_RELAXED); }

/* One Euler step of 20 ms, in `substeps` parts: the textbook's cart, pole, masses and force. */
static void move(int action, long substeps) {
  double tau = 0.02 / (double)substeps, force = action ? 10.0 : -10.0;

  for (long part = 0; part < substeps; part++) {
    double cosine = cos(state[2]), sine = sin(state[2]);
    double push = (force + 0.05 * state[3] * state[3] * sine) / 1.1;
    double turn = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1));
    double pull = push - 0.05 * turn * cosine / 1.1;

    state[0] += tau * state[1];
    state[1] += tau * pull;
    state[2] += tau * state[3];
    state[3] += tau * turn;
  }
}

static int fallen(void) { return fabs(state[0]) > 2.4 || fabs(state[2]) > 0.2095; }

static PyObject* observed(void) {
  return Py_BuildValue("(ddddi)", state[0], state[1], state[2], state[3], fallen());
}

static PyObject* step(PyObject* module, PyObject* const* arguments, Py_ssize_t given) {
  long action = given == 2 ? PyLong_AsLong(arguments[0]) : -1;
  long substeps = given == 2 ? PyLong_AsLong(arguments[1]) : -1;

  (void)module;
  count(STEP);
  if (action < 0 || substeps < 1) return PyErr_Format(PyExc_ValueError, "step(action, substeps)");
  move((int)action, substeps);
  return observed();
}

static PyObject* reset(PyObject* module, PyObject* seed) {
  long number = PyLong_AsLong(seed);

  (void)module;
  count(RESET);
  for (int part = 0; part < 4; part++)
    state[part] = (double)((number * 7919 + part * 104729) % 1000 - 500) / 10000.0;
  return observed();
}

static PyObject* observe(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  count(OBSERVE);
  return observed();
}

static PyObject* drive(PyObject* module, PyObject* const* arguments, Py_ssize_t given) {
  long steps = given == 2 ? PyLong_AsLong(arguments[1]) : -1;

  (void)module;
  count(DRIVE);
  if (steps < 0) return PyErr_Format(PyExc_ValueError, "drive(policy, steps)");
  for (long index = 0; index < steps; index++) {
    PyObject* action = PyObject_CallNoArgs(arguments[0]);

    if (!action) return NULL;
    move(PyObject_IsTrue(action), 10);
    Py_DECREF(action);
  }
  return observed();
}

static PyObject* fail(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  count(FAIL);
  return PyErr_Format(PyExc_ValueError, "as asked for");
}

/* Never returns to where it was called from. */
static PyObject* left(PyObject* module, PyObject* unused) {
  (void)module;
  count(LEFT);
  if (unused) return PyErr_Format(PyExc_RuntimeError, "only leave() may call this");
  longjmp(back, 1);
}

static PyObject* (*volatile leave_by)(PyObject*, PyObject*) = left;

static PyObject* leave(PyObject* module, PyObject* unused) {
  (void)unused;
  count(LEAVE);
  if (setjmp(back) == 0) return leave_by(module, NULL);
  Py_RETURN_TRUE;
}

__attribute__((used)) static PyObject* blunted(void) {
  count(BLUNT);
  Py_RETURN_NONE;
}

/* The stack pointer moves first: where it stands the return address is out of reach of a probe. */
__attribute__((naked)) static PyObject* blunt(PyObject* module, PyObject* unused) {
  __asm__("sub $8, %rsp\n\tcall blunted\n\tadd $8, %rsp\n\tret");
}

static PyObject* counts(PyObject* module, PyObject* unused) {
  PyObject* told = PyDict_New();

  (void)module;
  (void)unused;
  for (int function = 0; told && function < FUNCTIONS; function++) {
    PyObject* number = PyLong_FromLongLong(entered[function]);

    PyDict_SetItemString(told, names[function], number);
    Py_XDECREF(number);
  }
  return told;
}

static PyMethodDef methods[] = {
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL, "Move on by 20 ms."},
    {"reset", reset, METH_O, "Begin anew."},
    {"observe", observe, METH_NOARGS, "Return the state."},
    {"drive", (PyCFunction)(void (*)(void))drive, METH_FASTCALL, "Let a function decide."},
    {"fail", fail, METH_NOARGS, "Raise ValueError."},
    {"leave", leave, METH_NOARGS, "Return True by longjmp from another call."},
    {"left", left, METH_O, "The call that leave() leaves."},
    {"blunt", blunt, METH_NOARGS, "Count, and nothing else."},
    {"counts", counts, METH_NOARGS, "Return how often each was entered."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "native_cartpole",
                                        .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit_native_cartpole(void) { return PyModuleDef_Init(&definition); }
