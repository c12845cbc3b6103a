"""Runs one program and writes down what it took: a script of its own, traced and untraced alike.

    python -I -S child.py REPORT TIMERS COMMAND...

REPORT gets one line: CPU time of the program and of what it waited for (ns, by wait4), wall time
from just before its exec (ns, CLOCK_MONOTONIC), its pid, and its wait status; or `error` and an
errno if it could not be started. What it says on stderr goes to REPORT.stderr. TIMERS, if not
empty, is the program's RLSCOPE_TIMERS.
"""

import os
import signal
import sys
import time

# Set by Python for itself when it starts, and those that this script ignores.
_DEFAULT_IN_THE_PROGRAM = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the program; return its exit code as a shell would."""
    report, timers, *command = sys.argv[1:]
    environment = dict(os.environ)
    if timers:
        environment["RLSCOPE_TIMERS"] = timers
    # Signals that end a run are for the program: what it took is still written down.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    start_ns = time.monotonic_ns()
    try:
        pid = _spawn(command, environment, f"{report}.stderr")
    except OSError as error:
        _write(report, f"error {error.errno or 0}")
        return 127
    _, status, usage = os.wait4(pid, 0)
    wall_ns = time.monotonic_ns() - start_ns
    cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
    _write(report, f"{cpu_ns} {wall_ns} {pid} {status}")
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _spawn(command: list[str], environment: dict[str, str], words: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, words, flags, 0o600),
    ]
    return os.posix_spawnp(
        command[0], command, environment,
        file_actions=streams, setsigdef=_DEFAULT_IN_THE_PROGRAM,
    )  # fmt: skip


def _write(report: str, line: str) -> None:
    # Whole or not at all.
    with open(f"{report}.new", "w") as file:  # noqa: PTH123 - pathlib takes longer to import
        file.write(line + "\n")
    os.replace(f"{report}.new", report)  # noqa: PTH105


if __name__ == "__main__":
    sys.exit(main())
