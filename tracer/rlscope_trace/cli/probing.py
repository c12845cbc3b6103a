"""Runs a probe of a replacement (probe.py) as the user who asked, and reads what it found."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_analysis.wording import printable
from rlscope_trace.confinement import needed_to_read_ourselves
from rlscope_trace.errors import TracerError
from rlscope_trace.installed import own_command
from rlscope_trace.outputs.trusted import is_own_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.privileges import Identity

_TIMEOUT_S = 120
_MOST_BYTES = 1 << 16


def probe(
    module: str, factory: str, identity: Identity | None, sizes: Sequence[int] = ()
) -> list[tuple[float, float]]:
    """Return the CPU time of a step in ns, and its standard error: at each of the sizes, if any.

    identity: who called the command through sudo; None: whoever runs it. The code is theirs, and
    runs with no more rights than they have. Raises TracerError.
    """
    if identity is not None and identity.uid != os.geteuid():
        raise TracerError(
            f"a probe runs as the user who asks for it, and this is not user {identity.uid}",
            hint="run whatif without sudo: it reads a trace, and needs no rights",
        )
    if os.geteuid() != 0 and needed_to_read_ourselves():
        # It would have the right to read all files, which this process has for its own modules.
        raise TracerError(
            "a probe runs as the user who asks for it, who may not read this installation",
            hint="install rlscope-trace where that user may read it, and run whatif without sudo",
        )
    what = f"{printable(module)}:{printable(factory)}"
    if os.geteuid() == 0 and not _is_code_ours():
        raise TracerError(
            "a probe is code of the current folder, and others than root can change what is there",
            hint="run whatif as the user whose folder it is: it reads a trace, and needs no rights",
        )
    command = [*own_command("rlscope_trace.cold_probe"), module, factory, *map(str, sizes)]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_TIMEOUT_S,
            check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "it took too long" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise TracerError(f"the probe of {what} failed: {why}", hint=_HINT) from error
    return _read(what, ended.stdout[:_MOST_BYTES], ended.returncode, max(1, len(sizes)))


def _is_code_ours() -> bool:
    """Tell whether the modules of the current folder are root's, and nobody else can add one."""
    try:
        return is_own_place(Path()) and all(
            entry.stat().st_uid == entry.stat(follow_symlinks=False).st_uid == 0
            for entry in os.scandir()
            if entry.is_dir() or entry.name.endswith((".py", ".so", ".pth"))
        )
    except OSError:
        # A link that leads nowhere, yet.
        return False


_HINT = "MODULE has FACTORY(), which returns an environment: python -c 'import MODULE'"


def _read(what: str, answer: bytes, code: int, count: int) -> list[tuple[float, float]]:
    try:
        found = json.loads(answer)
        if "error" in found:
            why = printable(str(found["error"]))
        else:
            steps = [_step(step) for step in found["steps"]]
            if len(steps) == count:
                return steps
            why = "it measured too little"
    except (ValueError, TypeError, KeyError):
        why = f"it ended with {code} and no answer"
    raise TracerError(f"the probe of {what} failed: {why}", hint=_HINT)


def _step(found: dict[str, Any]) -> tuple[float, float]:
    """Return what a step takes and the error of that. Raises ValueError."""
    step, blocks = float(found["step_ns"]), [float(ns) for ns in found["blocks_ns"]]
    if not math.isfinite(step) or step < 0 or len(blocks) < 2:
        raise ValueError(step)
    return step, statistics.stdev(blocks) / math.sqrt(len(blocks))
