// How many steps of environments a call was: 1 of an environment, n of a vector of n.
#ifndef RLS_STEPS_H
#define RLS_STEPS_H

#include <Python.h>
#include <stdint.h>

#include "call.h"

enum rls_steps {
  RLS_STEPS_NONE,        // it is no step: reset()
  RLS_STEPS_ONE,         // one, whatever it returns
  RLS_STEPS_RESULT,      // as many as there are rewards and flags in what it returns
  RLS_STEPS_ACTION,      // as many as there are actions in the argument
  RLS_STEPS_BATCH_SIZE,  // the product of the attribute batch_size of its object
  RLS_STEPS_UNKNOWN,     // it is one, of we know not how many
  RLS_STEPS_WAYS,
};

// Returns the steps that a call which returned was; negative: not known. Leaves no exception.
int64_t rls_steps_of(enum rls_steps way, const struct rls_call* call, PyObject* result);

#endif  // RLS_STEPS_H
