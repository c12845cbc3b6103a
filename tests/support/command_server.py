"""Runs commands that read traces as forks of one process that has loaded the product.

Loading is a third of their time. Each is a process of its own, which gives up its rights as one
that is started.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from soak_lib.command_server import become

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = ("balance", "compare", "explain", "export", "report", "sql", "summarize", "whatif")


def run(arguments: Sequence[str], *, deadline_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, where and with the environment where we are."""
    return _server().run(arguments, deadline_s)


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.end)
    return server


class _Server:
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rlscope-commands-")
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    def end(self) -> None:
        self._process.communicate()
        self._folder.cleanup()

    def run(self, arguments: Sequence[str], deadline_s: float) -> subprocess.CompletedProcess[str]:
        out, err = (Path(self._folder.name) / name for name in ("out", "err"))
        asked = {
            "arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ),
            "out": str(out), "err": str(err), "deadline_s": deadline_s,
        }  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        texts = (place.read_text(errors="surrogateescape") for place in (out, err))
        return subprocess.CompletedProcess(list(arguments), code, *texts)


def _serve() -> None:
    """Answer each line of stdin with the exit code of its command."""
    for name in COMMANDS:
        importlib.import_module(f"rlscope_trace.cli.{name}")
    for name in ("critical_path.path", "overview.answer"):
        importlib.import_module(f"rlscope_analysis.{name}")
    for line in sys.stdin:
        asked = json.loads(line)
        if not (pid := os.fork()):
            _command(asked)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _command(asked: dict[str, Any]) -> NoReturn:
    signal.setitimer(signal.ITIMER_REAL, asked["deadline_s"])
    os.chdir(asked["folder"])
    become(asked["arguments"], Path(asked["out"]), Path(asked["err"]), asked["environment"])


if __name__ == "__main__":
    _serve()
