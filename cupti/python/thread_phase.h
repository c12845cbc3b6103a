// The phase that each thread is in: at most one range is open per thread, and a change of phase is
// one pop and one push.
//
// simulation is known: the calls into an environment. What a thread does between two of them is
// recognised by what happens first: a policy's forward pass (inference), a training forward pass,
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
  // Of the table of frameworks alone: phases.table.
  RLS_ROLLOUT,
  RLS_REWARD,
  RLS_LOGPROB,
  RLS_ADVANTAGE,
  RLS_OPTIMIZER,
  RLS_WEIGHT_SYNC,
  RLS_OFFLOAD,
  RLS_EVALUATION,
  RLS_CHECKPOINT,
  RLS_WAIT,
  RLS_PHASES,
};

// The key of the scope of a model in evaluation mode: evaluation.py.
#define RLS_EVALUATION_MODE 1
// So many can lie in each other; what is deeper belongs to the one around it.
#define RLS_MAX_SCOPES 16

// A call or timer whose whole time has one phase: train(), predict(), a buffer's add().
struct rls_scope {
  uint64_t key;  // who began it, and ends it
  enum rls_phase phase;
  uint32_t label;   // what the framework calls it: rls_nvtx_label; 0: nothing
  bool is_closing;  // what it interrupted does not go on after it
  bool gives;       // it hands something over: nothing to learn from comes by it
};

struct rls_thread {
  enum rls_phase phase;
  uint32_t label;  // of the open range
  // Environment calls on the stack: an environment that wraps others is one simulation.
  unsigned environment_depth;
  unsigned scope_depth;
  struct rls_scope scopes[RLS_MAX_SCOPES];  // the innermost last
  // What the outermost of them interrupted.
  enum rls_phase before;
  uint32_t before_label;
  bool is_sampled;  // a replay buffer was read in this gap
  bool* leads;      // of the buffer that was read last, whether learning follows: not known yet
  bool is_armed;    // the next forward pass is to be judged: by rls_arm
  bool is_pending;  // forward passes of this gap are not judged yet
  bool is_known_to_exit;  // rls_thread_exit will run
  bool has_environment;   // it called one itself
  bool has_model;         // it ran a forward pass or learned
  bool has_acted;         // it had a phase inference
  bool is_fed;            // it waited for input or took data: what it learns from comes in pieces
  bool has_stepped;       // the last that it learned with was an optimizer step
  bool acts_by_waiting;   // its forward passes are followed by waits: workers step for it
  uint64_t steps_taken;   // calls that were steps of its environments
  uint64_t began_ns;      // when the open range of learning began; 0: none is, or a scope says so
  uint64_t learned_ns;    // when the last backward pass or optimizer step returned; 0: none did
  bool is_early;          // it is about to learn, and has done nothing that is known
  // In a call of a function that JAX compiled, and what it ran where it was traced in it.
  bool is_compiled;
  bool has_differentiated;
  bool has_traced_step;
  bool has_traced_reset;
  uint32_t evaluation_label;  // of an evaluation that begins with the next environment call
  uint64_t called_ns;         // when a call of what torch compiled began; 0: in none
  bool* is_refuted;           // of the guess on the stack that this is an environment, NULL: none
  int64_t guessed_steps;      // of the environment that was called in it
  uint32_t incarnation;       // changes in a forked child
};

struct rls_thread* rls_thread_self(void);

// Ends the open range, begins another; label: what the framework calls it, 0: nothing. Learning
// ends with its last step, unless little follows: target networks.
void rls_thread_switch(struct rls_thread* thread, enum rls_phase phase, uint32_t label);

// Ends the open range where nothing follows it: learning ended with its last step.
void rls_thread_end(struct rls_thread* thread);

uint64_t rls_now_ns(void);

// Around a scope. They need not be nested: each ends by its key, whatever is open in it. One that
// is begun again with the same key ends before. false: it is not kept, and has no phase.
bool rls_scope_enter(struct rls_thread* thread, const struct rls_scope* scope);
// Returns the phase of one that was open, the thread being back in what surrounds it.
enum rls_phase rls_scope_leave(struct rls_thread* thread, uint64_t key);

// Have the next forward pass of the thread be judged, or not any more.
void rls_arm(struct rls_thread* thread);
void rls_disarm(struct rls_thread* thread);

// How many threads are armed. What every call of every module has to know first, so it is shown
// without the thread's own memory, which takes long to find.
extern atomic_uint rls_armed_threads;

// Whether this process has called an environment, or learned. Before that a program is setting up.
bool rls_has_begun(void);

// A backward pass or an optimizer step of the thread.
void rls_note_learning(struct rls_thread* thread);

// Around a call into an environment.
void rls_environment_enter(struct rls_thread* thread);
void rls_environment_leave(struct rls_thread* thread);

// Before the outermost call is left: how many steps of environments it was; negative: not known.
// Without it, it was none.
void rls_environment_count(struct rls_thread* thread, int64_t steps);

// What a gap is when nothing in it tells: RLS_INFERENCE for programs whose forward passes cannot be
// seen, else RLS_NO_PHASE.
void rls_set_default_gap(enum rls_phase phase);

// What the thread does from here on. Nothing in an environment call or a scope.
void rls_decide(struct rls_thread* thread, enum rls_phase phase);

// Registers the phases' names; false: no tool listens.
bool rls_phases_start(void);

#endif  // RLS_THREAD_PHASE_H
