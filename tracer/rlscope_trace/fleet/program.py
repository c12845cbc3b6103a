"""A program of Ray that is launched to be recorded: it and its workers report themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.fleet.keeper import session_of
from rlscope_trace.privileges import invoking_environment, invoking_identity
from rlscope_trace.record.launch import Launched, SignalSetup, launch, program_file
from rlscope_trace.record.shims import Request, inject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# As cupti/python/rlscope_phases/ray_hook.py calls it.
_VARIABLES = "RLSCOPE_RAY_VARIABLES"
_ADDRESS = "RAY_ADDRESS"


def shim_variables(session: str) -> dict[str, str]:
    """Return the variables with which processes report to the recorder of their machine."""
    request = Request(session)
    return inject({}, request, program=None, identity=invoking_identity()).environment


def worker_variables(session: str) -> dict[str, str]:
    """Return the same for workers of Ray, which fills in what it starts with a dollar."""
    return shim_variables(session_of(session, "${RAY_RAYLET_PID}"))


def launched_environment(
    address: str, session: str, raylet_pid: int, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a driver: its workers get the variables of the shim from it.

    address: of the cluster that is recorded, which the driver is to use. raylet_pid: of this node.
    """
    variables = worker_variables(session)
    user = dict(invoking_environment(invoking_identity()) if environment is None else environment)
    request = Request(session_of(session, raylet_pid))
    found = inject(user, request, program=None, identity=invoking_identity()).environment
    lines = "\n".join(f"{name}={value}" for name, value in variables.items())
    return {_ADDRESS: address, **found, _VARIABLES: lines}


def start_program(command: Sequence[str], environment: Mapping[str, str]) -> Launched:
    """Start a program that does nothing before it is released. Raises TracerError."""
    # A file that is none is an error here, not when all recorders have been started.
    program_file(command, environment)
    return launch(
        command, identity=invoking_identity(), environment=environment,
        signals=SignalSetup.capture(),
    )  # fmt: skip
