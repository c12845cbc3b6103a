// What happens at a boundary, apart from the range: forward passes are watched for, environments
// adopted, learning noticed.
#ifndef RLS_BOUNDARY_H
#define RLS_BOUNDARY_H

#include <Python.h>

#include "call.h"
#include "thread_phase.h"

// What the Python half supplies. All but bound_method may be NULL.
struct rls_callbacks {
  PyObject* bound_method;  // types.MethodType
  PyObject* adopt;         // adopt(environment): hook the type of an outermost environment
  PyObject* adopted;       // set of the types that adopt has seen
  PyObject* resolve;       // resolve(phase): what the pending forward passes led to
  PyObject* judge;         // judge(place, arguments) -> phase of a forward pass, if not settled
  PyObject* failed;        // failed(adapter, exception): one of the above raised it
};
extern struct rls_callbacks rls_callbacks;

// What a forward pass says about the gap it is in.
enum rls_forward {
  RLS_FORWARD_TELLS,         // what the gap is: no other needs to be judged
  RLS_FORWARD_ASKS,          // nothing yet
  RLS_FORWARD_ENDS_ROLLOUT,  // returns and advantages follow it, then something else
};

// Around a forward pass of a thread that is armed. The modules in it are not judged. enter leaves
// an exception set if a signal handler of the program raised one.
enum rls_forward rls_enter_forward(struct rls_thread* thread, const struct rls_call* call);
void rls_leave_forward(struct rls_thread* thread, enum rls_forward forward);

// A backward pass or an optimizer step of this thread is about to run, and has run.
void rls_learn(struct rls_thread* thread);
void rls_learned(struct rls_thread* thread);

// A buffer was read; leads: whether learning followed when it was read last, which is kept there.
void rls_sampled(struct rls_thread* thread, bool* leads);

// Around a call or timer of the table of frameworks. Returns whether it is kept.
bool rls_enter_table(struct rls_thread* thread, const struct rls_scope* scope);
void rls_leave_table(struct rls_thread* thread, uint64_t key);

// A call into an environment begins; it ends with rls_environment_leave.
void rls_enter_environment(struct rls_thread* thread);

// An environment is reset that is part of no other, by this call of reset().
void rls_adopt(const struct rls_call* call);

#endif  // RLS_BOUNDARY_H
