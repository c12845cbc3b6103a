// A function of the program, with a boundary of a phase around it.
//
// It is a type of its own rather than a Python function around the function: it costs a tenth,
// shows in no traceback, shifts no warnings.warn(stacklevel=...), and answers for the function it
// holds: name, signature, source, pickling.
#ifndef RLS_HOOK_H
#define RLS_HOOK_H

#include <Python.h>

// So often something is called that happens again and again.
enum { RLS_REPEATED = 3 };

enum rls_hook_kind {
  RLS_HOOK_STEP,      // a call into an environment
  RLS_HOOK_RESET,     // the same; the outermost object that is reset is the one to watch
  RLS_HOOK_FINISH,    // after it nothing is known: learn()
  RLS_HOOK_SCOPE,     // its whole time has one phase
  RLS_HOOK_SAMPLE,    // the same, and what follows is learning: a replay buffer was read
  RLS_HOOK_LEARN,     // learning goes on: backward
  RLS_HOOK_FORWARD,   // a forward pass of a module
  RLS_HOOK_CLOSE,     // it and what follows belong to no phase: an environment shuts down
  RLS_HOOK_TABLE,     // as the table of frameworks says: its whole time has one phase
  RLS_HOOK_GIVE,      // the same, and it hands something over
  RLS_HOOK_COMPILED,  // a function that JAX compiles: what it is shows while it is traced
  RLS_HOOK_BEGIN,     // begins a timer of a framework: the watcher is called after it, as it was
  RLS_HOOK_END,       // ends one: the watcher is called before it
  RLS_HOOK_KINDS,
};

// Returns the type `Hook(function, kind, phase, is_guess, steps, label, watcher)`; NULL with an
// exception set.
PyObject* rls_make_hook_type(void);

#endif  // RLS_HOOK_H
