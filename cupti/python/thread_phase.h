// The phase that each thread is in: at most one range is open per thread, and a change of phase is
// one pop and one push.
//
// simulation is known: the calls into an environment. What a thread does between two of them is
// told by what happens first: a policy's forward pass (inference), a training forward pass,
// backward or optimizer step (backpropagation), a buffer (data).
#ifndef RLS_THREAD_PHASE_H
#define RLS_THREAD_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum rls_phase {
  RLS_NO_PHASE = 0,
  RLS_SIMULATION,
  RLS_INFERENCE,
  RLS_BACKPROPAGATION,
  RLS_DATA,
  RLS_PHASES,
};

struct rls_thread {
  enum rls_phase phase;
  // Environment calls on the stack: an environment that wraps others is one simulation.
  unsigned environment_depth;
  // Calls on the stack whose whole time has one phase (train(), predict(), a buffer's add()).
  unsigned scope_depth;
  enum rls_phase scope_phase;  // of the innermost
  // What the gap since the last environment call turned out to be, by the first thing in it.
  enum rls_phase gap;
  bool is_sampled;        // a replay buffer was read in this gap
  bool is_armed;          // the next forward pass is to be judged: by rls_arm
  bool is_pending;        // forward passes of this gap are not judged yet
  bool is_known_to_exit;  // rls_thread_exit will run
  bool* is_refuted;       // of the guess on the stack that this is an environment, NULL: none
  uint32_t life;          // changes in a forked child
};

struct rls_thread* rls_thread_self(void);

// Ends the open range, begins another.
void rls_thread_switch(struct rls_thread* thread, enum rls_phase phase);

// Have the next forward pass of the thread be judged, or not any more.
void rls_arm(struct rls_thread* thread);
void rls_disarm(struct rls_thread* thread);

// How many threads are armed. What every call of every module has to know first, so it is told
// without the thread's own memory, which takes long to find.
extern atomic_uint rls_armed_threads;

// Whether this process has called an environment. Before that there are no phases: a program that
// trains without one, or is still setting up, is none of ours.
bool rls_has_environment(void);

// Around a call into an environment.
void rls_environment_enter(struct rls_thread* thread);
void rls_environment_leave(struct rls_thread* thread);

// Before the outermost call is left: how many steps of environments it was; negative: not known.
// Without it, it was none.
void rls_environment_count(const struct rls_thread* thread, int64_t steps);

// What a gap is when nothing in it tells: RLS_INFERENCE for programs whose forward passes cannot be
// seen, else RLS_NO_PHASE.
void rls_set_default_gap(enum rls_phase phase);

// The first thing in a gap that tells what it is. Nothing in an environment call or a scope.
void rls_decide(struct rls_thread* thread, enum rls_phase phase);

// Registers the phases' names; false: no tool listens.
bool rls_phases_start(void);

#endif  // RLS_THREAD_PHASE_H
