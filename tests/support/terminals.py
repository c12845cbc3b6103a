"""A pseudo-terminal with the command as its foreground."""

import codecs
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

from recording import COMMAND, DEADLINE_S


class Terminal:
    """A pseudo-terminal with the command as its foreground."""

    def __init__(self, *arguments: str | Path) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.shown = ""
        # A read may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def wait_for(self, text: str) -> None:
        """Read on until the text is on the screen."""
        end = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            assert self._read(end), f"{text!r} is not in {self.shown!r}"

    def _read(self, end: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            part = os.read(self._master, 65536)
        except OSError:
            # Nobody has the other side open any more.
            return False
        self.shown += self._decoder.decode(part)
        return bool(part)

    def settings(self) -> list[object]:
        """Return how the terminal is set: see termios.tcgetattr."""
        return termios.tcgetattr(self._master)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + DEADLINE_S
        while self._read(end):
            pass
        code = self.process.wait(timeout=DEADLINE_S)
        assert "Traceback" not in self.shown, self.shown
        return code

    def close(self) -> None:
        """End what still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)
