#include "place.h"

#include <stddef.h>

// Of each frame its code object and the instruction in it.
#define FRAMES 4
// A place is a multiple of it: its phase fits below.
#define PHASE_MASK UINT64_C(7)
#define MAX_PLACES 1024
#define TABLE_SIZE (2 * MAX_PLACES)

// Open addressing, 0: free. The interpreter's lock guards it.
static uint64_t table[TABLE_SIZE];
static unsigned settled;

// Exported from Python 3.9 on, the last from 3.11; NULL before. By other names, as headers of some
// versions declare them. Attributes of a frame say the same, and take longer.
#define PYTHON(name) __asm__(#name) __attribute__((weak))
extern PyObject* frame_code(PyObject* frame) PYTHON(PyFrame_GetCode);
extern PyObject* frame_back(PyObject* frame) PYTHON(PyFrame_GetBack);
extern int frame_instruction(PyObject* frame) PYTHON(PyFrame_GetLasti);

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 32);
}

static PyObject* code_of(PyObject* frame) {
  return frame_code != NULL ? frame_code(frame) : PyObject_GetAttrString(frame, "f_code");
}

// None or NULL: there is no other.
static PyObject* back_of(PyObject* frame) {
  return frame_back != NULL ? frame_back(frame) : PyObject_GetAttrString(frame, "f_back");
}

static long instruction_of(PyObject* frame) {
  if (frame_instruction != NULL) return frame_instruction(frame);
  PyObject* number = PyObject_GetAttrString(frame, "f_lasti");
  const long instruction = number != NULL ? PyLong_AsLong(number) : -1;
  Py_XDECREF(number);
  return instruction;
}

uint64_t rls_place_of_call(void) {
  uint64_t hash = 0;
  PyObject* frame = (PyObject*)PyEval_GetFrame();
  Py_XINCREF(frame);
  for (int depth = 0; depth < FRAMES && frame != NULL && frame != Py_None; ++depth) {
    PyObject* code = code_of(frame);
    hash = mix(mix(hash, (uint64_t)(uintptr_t)code), (uint64_t)instruction_of(frame));
    Py_XDECREF(code);
    PyObject* outer = back_of(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  if (PyErr_Occurred() == NULL) return hash & ~PHASE_MASK;
  PyErr_Clear();
  return 0;
}

static uint64_t* find(uint64_t place) {
  size_t index = (size_t)(place >> 3) % TABLE_SIZE;
  while (table[index] != 0 && (table[index] & ~PHASE_MASK) != place)
    index = (index + 1) % TABLE_SIZE;
  return &table[index];
}

enum rls_phase rls_place_phase(uint64_t place) {
  return (enum rls_phase)(*find(place) & PHASE_MASK);
}

void rls_place_settle(uint64_t place, enum rls_phase phase) {
  uint64_t* entry = find(place);
  if (*entry == 0 && rls_places_are_full()) return;
  if (*entry == 0) ++settled;
  *entry = place | (uint64_t)phase;
}

bool rls_places_are_full(void) { return settled >= MAX_PLACES; }
