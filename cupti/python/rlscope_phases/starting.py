"""Begins to look for phases: at the start of a program, or in one that runs.

`start` waits for the libraries that have something to say about phases and does nothing until the
program imports one; `install` serves a program that imported them already.
"""

import os
import sys

import rlscope_phases


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
    if rlscope_phases.status != "not started":
        return
    rlscope_phases.status = _unsupported() or "waiting"
    # Python 2 finds modules in another way: nothing is reported there.
    if sys.version_info >= (3, 4):
        from rlscope_phases import finder

        finder.insert()
    # Drivers of Ray only: what is imported costs each program of the target.
    if rlscope_phases.status == "waiting" and "RLSCOPE_RAY_VARIABLES" in os.environ:
        from rlscope_phases import ray_hook

        ray_hook.insert()


def install():
    """Adapt what is imported already, and watch imports from here on; return `status`."""
    rlscope_phases.is_late = True
    start()
    if rlscope_phases.status in ("waiting", "on"):
        from rlscope_phases import finder

        finder.adapt_imported()
    return rlscope_phases.status
