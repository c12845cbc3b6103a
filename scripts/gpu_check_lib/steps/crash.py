"""Programs that end badly: what was reported before is still there, and the target was let be."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING, Any

from gpu_check_lib import records
from gpu_check_lib.context import last_object
from gpu_check_lib.listening import listen

if TYPE_CHECKING:
    from gpu_check_lib.context import Context
    from gpu_check_lib.records import Records

_LAUNCHES = 20_000
_RATE = 10_000
_LIMIT_S = 60.0


def run(context: Context) -> None:
    """End a program by kill -9, by os._exit, and let one fork after it initialised CUDA."""
    for end, code in (("kill", -signal.SIGKILL), ("os_exit", 0)):
        exit_code, reported, found = _end(context, end)
        context.check(f"{end}: the program ended as it would", exit_code == code, f"{exit_code}")
        _check_loss(context, end, reported, found)
    _fork(context)


def _end(context: Context, end: str) -> tuple[int, dict[str, Any], Records]:
    listener = listen(context, end)
    command = context.program("launches", "--count", _LAUNCHES, "--rate", _RATE, "--end", end)
    done = subprocess.run(
        command, env=context.environment(listener.environment()), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    # It reported what it did before it ended.
    return done.returncode, last_object(done.stdout, 0, done.stderr), listener.records()


def _check_loss(context: Context, end: str, reported: dict[str, Any], found: Records) -> None:
    kernels = len(found.of(records.KERNEL))
    missing = reported["launches"] - kernels
    context.tell(
        f"{end}: what was lost with the program",
        f"the last {missing} of {reported['launches']} kernels, {missing / _RATE * 1000:.0f} ms",
        missing=missing,
    )
    context.check(f"{end}: what was reported before is there", 0 <= missing < _RATE, f"{kernels}")


def _fork(context: Context) -> None:
    listener = listen(context, "fork")
    reported = context.run(
        context.program("launches", "--count", 1000, "--fork"), listener.environment()
    )
    found = listener.records()
    context.check("fork: the child ended as it would", reported["child_exit"] == 7,
                  f"{reported['child_exit']}")  # fmt: skip
    kernels = [kernel for kernel in found.of(records.KERNEL) if kernel.pid == reported["pid"]]
    context.check(
        "fork: the parent's kernels are all there", len(kernels) == reported["launches"],
        f"{len(kernels)} of {reported['launches']}",
    )  # fmt: skip
    others = len(found.of(records.KERNEL)) - len(kernels)
    context.check("fork: the child has none", others == 0, f"{others}")
