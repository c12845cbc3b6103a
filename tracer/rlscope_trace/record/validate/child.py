"""Runs one program and writes down what it took: a script of its own, traced and untraced alike.

    python -I -S child.py REPORT TIMERS COMMAND...

REPORT gets one line: CPU time of the program and of all its processes that have ended (ns, by
wait4), wall time of the program from just before its exec (ns, CLOCK_MONOTONIC), its pid, its wait
status, and 1 if a process of it still runs, else 0; or `error` and an errno if it could not be
started. What it says on stderr goes to REPORT.stderr. REPORT.pid holds its pid, and is empty as
soon as it has ended, before its processes are waited for. TIMERS, if not empty, is the program's
RLSCOPE_TIMERS.
"""

import ctypes
import os
import signal
import sys
import time

# Set by Python for itself when it starts, and those that this script ignores.
_DEFAULT_IN_THE_PROGRAM = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)
_PR_SET_CHILD_SUBREAPER = 36
# What processes that the program does not wait for get to end, and how often that is looked at.
_ORPHANS_S = 2.0
_LOOK_S = 0.005


def main() -> int:
    """Run the program; return its exit code as a shell would."""
    report, timers, *command = sys.argv[1:]
    environment = dict(os.environ)
    if timers:
        environment["RLSCOPE_TIMERS"] = timers
    # Signals that end a run are for the program: what it took is still written down.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Whom the program does not wait for becomes our child, so that its CPU time is counted too: the
    # workers of multiprocessing belong to a server that nobody waits for.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    start_ns = time.monotonic_ns()
    try:
        pid = _spawn(command, environment, f"{report}.stderr")
    except OSError as error:
        _write(report, f"error {error.errno or 0}")
        return 127
    _write(f"{report}.pid", str(pid))
    ended, status, cpu_s = _reap()
    while ended != pid:
        ended, status, more_s = _reap()
        cpu_s += more_s
    wall_ns = time.monotonic_ns() - start_ns
    _write(f"{report}.pid", "")
    orphans_s, left = _reap_orphans()
    cpu_ns = round((cpu_s + orphans_s) * 1e9)
    _write(report, f"{cpu_ns} {wall_ns} {pid} {status} {left:d}")
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _reap(flags: int = 0) -> tuple[int, int, float]:
    """Return pid, wait status and CPU time (s) of a process that has ended; its pid is 0: none."""
    pid, status, usage = os.wait4(-1, flags)
    return pid, status, usage.ru_utime + usage.ru_stime


def _reap_orphans() -> tuple[float, bool]:
    """Return the CPU time (s) of those that end now, and whether others are left."""
    cpu_s = 0.0
    end_s = time.monotonic() + _ORPHANS_S
    while time.monotonic() < end_s:
        try:
            pid, _, more_s = _reap(os.WNOHANG)
        except ChildProcessError:
            return cpu_s, False
        cpu_s += more_s
        if not pid:
            time.sleep(_LOOK_S)
    return cpu_s, True


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
