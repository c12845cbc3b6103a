"""Loads the native half once an NVTX tool listens, and connects it with the adapters."""

import sys

import rlscope_phases
from rlscope_phases import core, environments, failures, guesses


def is_on():
    """Load the native half, once; return whether a tool listens."""
    if rlscope_phases.status == "waiting":
        try:
            rlscope_phases.status = _load()
        except Exception as error:
            rlscope_phases.status = "not_started\t" + repr(error)
    return rlscope_phases.status == "on"


def _load():
    """Return "on", or why there are no phases."""
    try:
        from rlscope_phases import _nvtx
    except ImportError as error:
        return "native_not_loaded\t" + str(error)
    if not _nvtx.start():
        return "no_tool"
    core.native = _nvtx
    failures.report = _nvtx.mark
    bound_method = type(environments.Probe().method)
    _nvtx.connect(bound_method, _adopt, environments.adopted, failures.note)
    core.end_first()
    return "on"


def _adopt(environment):
    """Put hooks on the type of an environment that the program calls itself, and look for more."""
    environments.adopt(environment, sys._getframe(1))
    failures.attempt(guesses.OWN, guesses.look)
