"""The processes whose loops are measured, and how they are talked to."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.facts.qualities import Quality, quality
from rlscope_trace.errors import TracerError
from rlscope_trace.installed import LIBRARY_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SCRIPT = Path(__file__).absolute().with_name("child.py")
LIBRARY = LIBRARY_FOLDER / "librlscope_loops.so"
# A batch takes milliseconds; this is for a machine that swaps.
_DEADLINE_S = 20.0


class CalibrationError(TracerError):
    """A measurement that could not be made; the message says why."""

    quality: Quality | None = None
    """The same, where calibration has a code for it."""


def _error_of(reported: Mapping[str, Any]) -> CalibrationError:
    """Return what a process of ours says that it could not do."""
    error = CalibrationError(reported["error"])
    why = reported["why"]
    if why is not None:
        error.quality = quality(why["code"], *why["numbers"], subject=why["subject"])
    return error


class Child:
    """A process of ours that runs loops on request; it ends with close(), or with us."""

    def __init__(
        self,
        cpu: int,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """cpu: where it stays. environment: what is added to ours."""
        if not LIBRARY.exists():
            raise CalibrationError(
                f"this installation lacks {LIBRARY.name}", hint="reinstall rlscope-trace"
            )
        # By its path: with -m, a module in the current folder could take the place of ours.
        command = [sys.executable, str(_SCRIPT), str(LIBRARY), str(cpu), *flags]
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words,
            env=_quiet_environment() | dict(environment or {}), pass_fds=pass_fds,
            start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self.pidfd = os.pidfd_open(self.pid)
        self._unread = b""

    def send(self, do: str, **arguments: object) -> None:
        """Begin a command; answer() waits for its end."""
        assert self._process.stdin is not None
        line = json.dumps({"do": do, **arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def answer(self) -> dict[str, Any]:
        """Return what the command gave; CalibrationError where it failed."""
        reported = json.loads(self._line())
        if "error" in reported:
            raise _error_of(reported)
        return dict(reported)

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Run a command and return what it gave."""
        self.send(do, **arguments)
        return self.answer()

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        end_s = time.monotonic() + _DEADLINE_S
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, end_s - time.monotonic())):
                    # Its answer would be taken for that of the next command.
                    self._process.kill()
                    raise CalibrationError(f"a loop took more than {_DEADLINE_S:.0f} s")
                chunk = os.read(stdout.fileno(), 1 << 16)
                if not chunk:
                    raise self._ended()
                self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _ended(self) -> CalibrationError:
        """Return the error of a process that is gone, with its last words."""
        self._words.seek(0)
        said = self._words.read().decode(errors="replace").split("\n")
        last = next((line for line in reversed(said) if line.strip()), "")
        return CalibrationError(
            f"the process that is measured has ended{': ' if last else ''}{last.strip()}"
        )

    def check(self) -> None:
        """Raise CalibrationError if the process has ended."""
        if self._process.poll() is not None:
            raise self._ended()

    def end(self) -> None:
        """Let the process end by itself, as programs do; by force after a while."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_DEADLINE_S)

    def close(self) -> None:
        """End the process."""
        os.close(self.pidfd)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    # What was not sent any more.
                    continue
        self._words.close()


def measured_cpu() -> int:
    """Return the CPU for what is measured: the last of those we may use."""
    return max(os.sched_getaffinity(0))


def _quiet_environment() -> dict[str, str]:
    """Return our environment without what makes a program tell somebody of its operations."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RLSCOPE_") and not name.endswith("_INJECTION64_PATH")
    }
