"""What all adapters share: the native half, the phases' numbers, and how a class is hooked."""

import sys

import rlscope_phases

# As in thread_phase.h and hook.h.
NONE, SIMULATION, INFERENCE, BACKPROPAGATION, DATA = range(5)
STEP, RESET, FINISH, SCOPE, SAMPLE, LEARN, FORWARD = range(7)

Function = type(lambda: None)
native = None
# The program ran before us: its environments were reset, and may never be again.
is_late = False


def is_on():
    """Load the native half, once; return whether a tool listens."""
    global native
    if rlscope_phases.status == "waiting":
        rlscope_phases.status = _load()
    return rlscope_phases.status == "on"


def _load():
    """Return "on", or why there are no phases."""
    global native
    try:
        from rlscope_phases import _nvtx
    except ImportError as error:
        return "the native module cannot be loaded: " + str(error)
    if not _nvtx.start():
        return "no NVTX tool is injected (NVTX_INJECTION64_PATH)"
    native = _nvtx
    from rlscope_phases import environments

    _nvtx.connect(type(environments.Probe().method), environments.adopt, environments.adopted)
    import atexit

    atexit.register(_nvtx.end)
    return "on"


def run(adapter, module):
    """Call "module of ours:function" with a module of the program."""
    name, function = adapter.split(":")
    full_name = "rlscope_phases." + name
    __import__(full_name)
    getattr(sys.modules[full_name], function)(module)


def hook_own(cls, names, kind, phase=NONE, is_guess=False):
    """Put hooks on those methods that the class itself defines as plain functions."""
    for name in names:
        function = cls.__dict__.get(name)
        if type(function) is Function:
            try:
                setattr(cls, name, native.Hook(function, kind, phase, is_guess))
            except (AttributeError, TypeError):
                continue


def follow_subclasses(base, apply):
    """Call `apply` with the class, and with every subclass it has or will have."""
    _apply_below(base, apply, set())
    own = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls, **kwargs):  # noqa: N807
        if own is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            own.__get__(None, cls)(**kwargs)
        _try(apply, cls)

    base.__init_subclass__ = classmethod(__init_subclass__)


def _apply_below(cls, apply, seen):
    if cls in seen:
        return
    seen.add(cls)
    _try(apply, cls)
    for subclass in type.__subclasses__(cls):
        _apply_below(subclass, apply, seen)


def _try(apply, cls):
    try:
        apply(cls)
    except Exception:
        return
