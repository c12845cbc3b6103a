"""Finds the phases of a reinforcement-learning program that nobody changed.

simulation, inference, backpropagation and data become NVTX ranges in the domain "rlscope". `start`
waits for the libraries that have something to say about phases and does nothing until the program
imports one; `install` serves a program that imported them already. Only the standard library is
used, and of that what Python has loaded anyway.

`status` says why there are no phases: "not started", "waiting" (no such library was imported),
"on", or the reason.
"""

import os
import sys

status = "not started"


def _unsupported():
    """Return why this interpreter cannot have phases, None if it can."""
    if sys.implementation.name != "cpython":
        return "Python is " + sys.implementation.name + ", not CPython"
    if sys.version_info < (3, 8):
        return "Python is older than 3.8"
    if "t" in getattr(sys, "abiflags", ""):
        return "Python is built without the GIL"
    return None


def start():
    """Watch imports from here on."""
    global status
    if status != "not started":
        return
    status = _unsupported() or "waiting"
    if status == "waiting":
        from rlscope_phases import finder

        finder.insert()
        # Drivers of Ray only: what is imported costs each program of the target.
        if "RLSCOPE_RAY_VARIABLES" in os.environ:
            from rlscope_phases import ray_hook

            ray_hook.insert()


def install():
    """Adapt what is imported already, and watch imports from here on; return `status`."""
    start()
    if status in ("waiting", "on"):
        from rlscope_phases import finder

        finder.adapt_imported()
    return status
