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
import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

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
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

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
    for name in (
        "numpy",
        "rlscope_analysis.critical_path.path",
        "rlscope_analysis.overview.answer",
    ):
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        if not (pid := os.fork()):
            _command(asked)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _command(asked: dict[str, Any]) -> NoReturn:
    from rlscope_trace.cli import main

    signal.setitimer(signal.ITIMER_REAL, asked["deadline_s"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for descriptor, place in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
    sys.argv = ["rlscope-trace", *asked["arguments"]]
    code: Any = 0
    try:
        main()
    finally:
        # Not the way back into the server.
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):
            code = error.code or 0
        elif error is not None:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
