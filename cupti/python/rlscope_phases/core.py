"""What all adapters share: the native half, the phases' numbers, and how a class is hooked."""

import sys

from rlscope_phases import failures

# As in thread_phase.h, hook.h and steps.h; the other phases are in table.py.
NONE, SIMULATION, INFERENCE, BACKPROPAGATION, DATA = range(5)
(STEP, RESET, FINISH, SCOPE, SAMPLE, LEARN, FORWARD, CLOSE, TABLE, GIVE, COMPILED,
 BEGIN, END) = range(13)  # fmt: skip
# How many steps of environments a call is.
NO_STEP, ONE_STEP, AS_RESULT, AS_ACTION, AS_BATCH_SIZE, UNKNOWN_STEPS = range(6)

Function = type(lambda: None)
# The native half, once a tool listens: listener.py.
native = None
# The program ran before us: its environments were reset, and may never be again.
is_late = False


def end_first():
    """Let the last phase end where the program does: before what shuts its workers down at exit.

    Functions run at exit in the opposite order, so that this is to be called late.
    """
    import atexit

    atexit.unregister(native.end)
    atexit.register(native.end)


def run(adapter, module):
    """Call "module of ours:function" with a module of the program."""
    name, function = adapter.split(":")
    full_name = "rlscope_phases." + name
    __import__(full_name)
    try:
        getattr(sys.modules[full_name], function)(module)
    except AttributeError as error:
        # It is still being imported, which Python would take for the cause.
        if getattr(error, "obj", None) is not module:
            raise
        what = "module '" + module.__name__ + "' has no attribute '" + error.name + "'"
        raise AttributeError(what) from None


def is_free(function):
    """Tell whether a function has no hook yet: a plain one, or one that JAX compiles."""
    if type(function) is native.Hook:
        return type(function.__wrapped__) not in (Function, native.Hook)
    return type(function) is Function


def hook_own(cls, names, kind, phase=NONE):
    """Put hooks on those methods that the class itself defines as functions."""
    for name in names:
        function = cls.__dict__.get(name)
        if is_free(function):
            setattr(cls, name, native.Hook(function, kind, phase))


def hook_steps(cls, names, steps_of, is_guess=False):
    """As above, calls into an environment; steps_of(name): how many steps of it a call is."""
    for name in names:
        function = cls.__dict__.get(name)
        if is_free(function):
            setattr(cls, name, native.Hook(function, STEP, NONE, is_guess, steps_of(name)))


def hook_timer(function, kind, module, watch):
    """Return a hook on what begins or ends a timer: `watch` is called with its arguments."""

    def watcher(*args, **kwargs):
        failures.attempt(module, watch, args, kwargs)

    return native.Hook(function, kind, NONE, False, NO_STEP, 0, watcher)


def hook_function(owner, name, kind):
    """Put a hook on a function that a class or module must have; an error if it is not there."""
    function = getattr(owner, name)
    if type(function) is Function:
        setattr(owner, name, native.Hook(function, kind))
    elif type(function) is not native.Hook:
        raise TypeError(owner.__name__ + "." + name + " is no plain function")


def follow_subclasses(base, apply, needs=()):
    """Call `apply` with the class, and with every subclass it has or will have.

    needs: methods that the class has in every version we know.
    """
    _apply_below(base, base, apply, set())
    _follow_new(base, apply)
    for name in needs:
        getattr(base, name)


def _follow_new(base, apply):
    own = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls, **kwargs):  # noqa: N807
        if own is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            own.__get__(None, cls)(**kwargs)
        _try(base, apply, cls)

    base.__init_subclass__ = classmethod(__init_subclass__)


def _apply_below(base, cls, apply, seen):
    if cls in seen:
        return
    seen.add(cls)
    _try(base, apply, cls)
    for subclass in type.__subclasses__(cls):
        _apply_below(base, subclass, apply, seen)


def _try(base, apply, cls):
    failures.attempt(base.__module__, apply, cls)


def report_after(cls, name, report):
    """Report what a method was called on, once it has returned."""
    function = getattr(cls, name)

    def call(self, *args, **kwargs):
        result = function(self, *args, **kwargs)
        failures.attempt(cls.__module__, report, self)
        return result

    copy_names(function, call)
    setattr(cls, name, call)


def copy_names(source, target):
    """Let a function answer as the one that it stands for."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(target, name, getattr(source, name))
    target.__wrapped__ = source
