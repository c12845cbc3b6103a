"""What a recording knows of Ray: which of its processes are whose.

Ray puts neither the job nor the actor of a worker where another process finds it, so whoever is
connected to the cluster (`rlscope_trace.fleet`) writes them down. A raylet says in its arguments on
which node it is; what workers do, they write into their titles.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace.confinement import reading_as_ourselves
from rlscope_trace.errors import UsageError
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

# The session that they become a part of may have 4 MiB, as JSON in ASCII.
_MOST_BYTES = 3 << 20
_KNOWN = ("node", "raylet_pid", "processes", "methods", "hidden_jobs", "jobs")
_JOB = re.compile(r"[0-9a-f]{8}", re.ASCII)
_RAYLET = re.compile(r"(?:^|/)raylet$")
_ARGUMENTS = {"--node_id": "node_id", "--node_ip_address": "address"}


@dataclass(frozen=True, slots=True)
class RaySettings:
    """What of Ray is asked for."""

    reported: Path | None = None
    """Where it is written who the processes are, by the time when the recording ends."""
    jobs: tuple[str, ...] = ()
    """Whose processes are kept; none: all are."""


def checked_jobs(jobs: Iterable[str]) -> tuple[str, ...]:
    """Return ids of jobs; UsageError where one is none."""
    for job in jobs:
        if _JOB.fullmatch(job) is None:
            raise UsageError(
                f"--ray-job {job!r} is no job of Ray", hint="ray list jobs: 01000000, for example"
            )
    return tuple(dict.fromkeys(jobs))


def node_facts(pids: Iterable[int]) -> dict[str, Any]:
    """Return the node whose raylet is among some processes, for the facts of a session.

    Empty where none is.
    """
    facts: dict[str, Any] = {}
    for pid in pids:
        facts |= _raylet(pid)
    return facts


def reported_facts(settings: RaySettings) -> dict[str, Any]:
    """Return what was written down of nodes and processes, and which jobs are kept."""
    facts = {} if settings.reported is None else _reported(settings.reported)
    return {**facts, "jobs": list(settings.jobs)} if settings.jobs else facts


def _raylet(pid: int) -> dict[str, Any]:
    """Return the node that a raylet is of; empty where the process is none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()[: 1 << 16].decode(errors="replace")
    except OSError:
        return {}
    program, *arguments = words.split("\0")
    if _RAYLET.search(program) is None:
        return {}
    pairs = (word.partition("=") for word in arguments)
    node = {_ARGUMENTS[name]: value[:80] for name, _, value in pairs if name in _ARGUMENTS}
    return {"node": node, "raylet_pid": pid}


def _reported(path: Path) -> dict[str, Any]:
    """Return what was written down; empty where nothing was, or nothing that can be read."""
    try:
        # Under sudo it is the user who names it.
        with reading_as_ourselves(), open_regular(path) as file:
            text = file.read(_MOST_BYTES + 1)
        found = json.loads(text) if len(text) <= _MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or len(json.dumps(found)) > _MOST_BYTES:
        return {}
    return {key: found[key] for key in _KNOWN if key in found}
