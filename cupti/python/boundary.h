// What happens at a boundary, apart from the range: forward passes are watched for, environments
// adopted, learning noticed.
#ifndef RLS_BOUNDARY_H
#define RLS_BOUNDARY_H

#include <Python.h>

#include "thread_phase.h"

// What the Python half supplies. All but bound_method may be NULL.
struct rls_callbacks {
  PyObject* bound_method;   // types.MethodType
  PyObject* adopt;          // adopt(environment): hook the type of an outermost environment
  PyObject* adopted;        // set of the types that adopt has seen
  PyObject* resolve;        // resolve(phase): what the pending forward passes led to
  PyObject* forward_hooks;  // torch's OrderedDict of hooks
  PyObject* forward_hook;   // what is put into it
  PyObject* forward_key;    // under this key
};
extern struct rls_callbacks rls_callbacks;

// Watch for the next forward pass in this thread, or no longer.
void rls_arm(struct rls_thread* thread);
void rls_disarm(struct rls_thread* thread);

// Whether a forward pass that the hook was called for is to be judged.
bool rls_is_watching(struct rls_thread* thread);

// A backward pass or an optimizer step of this thread is about to run.
void rls_learn(struct rls_thread* thread);

// Around a call into an environment.
void rls_enter_environment(struct rls_thread* thread);
void rls_leave_environment(struct rls_thread* thread);

// An environment is reset that is part of no other: `arguments` are those of reset().
void rls_adopt(PyObject* arguments);

#endif  // RLS_BOUNDARY_H
