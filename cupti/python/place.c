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

static PyObject* name_of(PyObject** kept, const char* name) {
  if (*kept == NULL) *kept = PyUnicode_InternFromString(name);
  return *kept;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 32);
}

// Adds what the frame says to the number; false with an exception set.
static bool add_frame(uint64_t* hash, PyObject* frame) {
  static PyObject *code_name, *instruction_name;
  PyObject* code = PyObject_GetAttr(frame, name_of(&code_name, "f_code"));
  if (code == NULL) return false;
  *hash = mix(*hash, (uint64_t)(uintptr_t)code);
  Py_DECREF(code);
  PyObject* instruction = PyObject_GetAttr(frame, name_of(&instruction_name, "f_lasti"));
  if (instruction == NULL) return false;
  *hash = mix(*hash, (uint64_t)PyLong_AsLong(instruction));
  Py_DECREF(instruction);
  return true;
}

uint64_t rls_place_of_call(void) {
  static PyObject* back_name;
  uint64_t hash = 0;
  PyObject* frame = (PyObject*)PyEval_GetFrame();
  Py_XINCREF(frame);
  for (int depth = 0; depth < FRAMES && frame != NULL && frame != Py_None; ++depth) {
    PyObject* inner = frame;
    frame = add_frame(&hash, inner) ? PyObject_GetAttr(inner, name_of(&back_name, "f_back")) : NULL;
    Py_DECREF(inner);
  }
  const bool is_reported = frame != NULL;
  Py_XDECREF(frame);
  if (!is_reported) PyErr_Clear();
  return is_reported ? hash & ~PHASE_MASK : 0;
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
