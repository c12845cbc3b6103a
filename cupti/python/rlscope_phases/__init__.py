"""Finds the phases of a reinforcement-learning program that nobody changed.

simulation, inference, backpropagation and data become NVTX ranges in the domain "rlscope". `start`
waits for the libraries that have something to say about phases and does nothing until the program
imports one; `install` serves a program that imported them already. Only the standard library is
used, and of that what Python has loaded anyway.

`status` says why there are no phases: "not started", "waiting" (no such library was imported),
"on", or a code of tracer/rlscope_trace/phase_status.py, after a tab what it is about. A launched
program that imports such a library, and has no phases, reports it: absence.py.
"""

import os
import sys

status = "not started"
# The program ran before us: whoever came late asks for the status.
is_late = False


def _unsupported():
    """Return why this interpreter cannot have phases, None if it can."""
    if sys.version_info < (3, 8):
        return "old_python"
    if sys.implementation.name != "cpython":
        return "other_python\t" + sys.implementation.name
    if "t" in getattr(sys, "abiflags", ""):
        return "free_threaded"
    return None


def start():
    """Watch imports from here on."""
    global status
    if status != "not started":
        return
    status = _unsupported() or "waiting"
    # Python 2 finds modules in another way: nothing is reported there.
    if sys.version_info >= (3, 4):
        from rlscope_phases import finder

        finder.insert()
    # Drivers of Ray only: what is imported costs each program of the target.
    if status == "waiting" and "RLSCOPE_RAY_VARIABLES" in os.environ:
        from rlscope_phases import ray_hook

        ray_hook.insert()


def install():
    """Adapt what is imported already, and watch imports from here on; return `status`."""
    global is_late
    is_late = True
    start()
    if status in ("waiting", "on"):
        from rlscope_phases import finder

        finder.adapt_imported()
    return status
