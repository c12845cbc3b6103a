"""Runs commands of the product thousands of times: forks of one process that has loaded it."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from soak_lib.home import FailureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from soak_lib.home import Home

_COMMANDS = ("recover", "import_", "export", "summarize", "explain", "sql")
_DEADLINE_S = 300.0
_LOOK_S = 0.002


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did."""

    code: int
    """Its exit code; -9 where signal 9 ended it."""
    out: str
    err: str
    cpu_s: float
    grown_bytes: int
    """By how much its largest size was above that of the process it was forked from."""


class CommandServer:
    """Each command is a process of its own, which gives up its rights as one that is started."""

    def __init__(self, home: Home) -> None:
        self._folder = home.folder
        self._environment = home.environment()

    def __enter__(self) -> Self:
        """Load what the commands load."""
        import importlib

        for name in _COMMANDS:
            importlib.import_module(f"rlscope_trace.cli.{name}")
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing: every command has ended."""

    def run(self, arguments: Sequence[str]) -> Done:
        """Run one to its end; FailureError where it does not come to one."""
        out, err = self._folder / "command.out", self._folder / "command.err"
        pid = os.fork()
        if pid == 0:
            become(arguments, out, err, self._environment)
        end_s = time.monotonic() + _DEADLINE_S
        while not (ended := os.wait4(pid, os.WNOHANG))[0]:
            if time.monotonic() > end_s:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise FailureError(f"{' '.join(arguments)}: does not end")
            time.sleep(_LOOK_S)
        _, status, usage = ended
        return Done(
            os.waitstatus_to_exitcode(status), _text(out), _text(err),
            usage.ru_utime + usage.ru_stime, max(0, usage.ru_maxrss * 1024 - _own_bytes()),
        )  # fmt: skip


def become(
    arguments: Sequence[str], out: Path, err: Path, environment: Mapping[str, str]
) -> NoReturn:
    """Be the command, in the forked process."""
    code = 70
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _redirect(out, err)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["rlscope-trace", *arguments]
        from rlscope_trace.cli import main

        code = _code_of(main)
    except BaseException:  # noqa: BLE001 - it is reported as the interpreter would
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        import atexit

        atexit._run_exitfuncs()
        os._exit(code)


def _code_of(main: object) -> int:
    try:
        main()  # type: ignore[operator]
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _redirect(out: Path, err: Path) -> None:
    with Path(os.devnull).open("rb") as null:
        os.dup2(null.fileno(), 0)
    for descriptor, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="surrogateescape")


def _own_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0
