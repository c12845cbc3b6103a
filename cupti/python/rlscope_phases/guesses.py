"""Classes of the program's own that look like an environment or a buffer.

Many scripts bring a vector environment or a replay buffer of their own, derived from nothing. An
environment has reset() and a step() that takes an action and returns a tuple of three or more; one
that learns inside step() was none, and is let go of.
"""

import os
import sys

from rlscope_phases import buffers, core, environments

MAX_LOOKS = 8
# In place of the module of an adapter.
OWN = "the program's own classes"
BUFFER_WORDS = ("buffer", "memory", "replay", "rollout", "storage", "trajector")
looks = 0
seen = set()


def look():
    """Look through the modules that are the program's own, some times in its life."""
    global looks
    looks += 1
    if looks > MAX_LOOKS:
        return
    library = os.path.dirname(os.__file__)
    for name, module in list(sys.modules.items()):
        if name == "__main__" or _is_programs_own(module, library):
            _look_through(name, module)


def _is_programs_own(module, library):
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or path.startswith(library):
        return False
    return "site-packages" not in path and "dist-packages" not in path and __package__ not in path


def _look_through(name, module):
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == name and value not in seen:
            seen.add(value)
            core.failures.attempt(OWN, _judge, value)


def _judge(cls):
    if environments.is_something_else(cls):
        return
    step, reset = getattr(cls, "step", None), getattr(cls, "reset", None)
    if core.is_free(step) and environments.takes_action(step) and core.is_free(reset):
        methods = ("reset", "step", "step_async", "step_wait")
        core.hook_steps(cls, methods, environments.steps_of, is_guess=True)
        core.hook_own(cls, ("close",), core.CLOSE)
    elif any(word in cls.__name__.lower() for word in BUFFER_WORDS):
        buffers.hook(cls)
