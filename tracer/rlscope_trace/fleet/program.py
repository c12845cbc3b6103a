"""A program of Ray that is launched to be recorded: it and its workers report themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.fleet.keeper import session_of
from rlscope_trace.privileges import invoking_environment, invoking_identity
from rlscope_trace.record.shims import Request, inject

if TYPE_CHECKING:
    from collections.abc import Mapping

# As cupti/python/rlscope_phases/ray_hook.py calls it.
_VARIABLES = "RLSCOPE_RAY_VARIABLES"
_ADDRESS = "RAY_ADDRESS"


def worker_variables(session: str) -> dict[str, str]:
    """Return the variables with which workers report to the recorder of their machine.

    Ray fills in what it starts with a dollar.
    """
    return _with_shim({}, session_of(session, "${RAY_RAYLET_PID}"))


def launched_environment(
    address: str, session: str, raylet_pid: int, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a driver: its workers get the variables of the shim from it.

    address: of the cluster that is recorded, which the driver is to use. raylet_pid: of this node.
    """
    user = invoking_environment(invoking_identity()) if environment is None else environment
    lines = "\n".join(f"{name}={value}" for name, value in worker_variables(session).items())
    reporting = _with_shim(user, session_of(session, raylet_pid))
    return {_ADDRESS: address, **reporting, _VARIABLES: lines}


def _with_shim(environment: Mapping[str, str], session: str) -> dict[str, str]:
    identity = invoking_identity()
    return inject(environment, Request(session), program=None, identity=identity).environment
