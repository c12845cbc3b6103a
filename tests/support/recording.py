"""What the integration tests share: running the installed command, and reading what it made."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

import command_server

COMMAND = [sys.executable, "-m", "rlscope_trace"]
DEADLINE_S = 60.0
# A user of no account.
USER = 54321
# The OS kernel counts what a hypervisor took, and much else, in steps of a tick.
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
OUR_PROGRAMS = frozenset(
    {
        "on_switch", "on_waking", "on_wakeup_new", "on_newtask", "on_exec", "on_exit", "on_rename",
        "enter_existing", "close_open",
    }
)  # fmt: skip


def rlscope(
    *arguments: str | Path, prefix: Sequence[str] = (), typed: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end. Whatever went wrong, a traceback is never the answer."""
    words = list(map(str, arguments))
    if words and words[0] in command_server.COMMANDS and not prefix and typed is None:
        done = command_server.run(words, deadline_s=DEADLINE_S)
    else:
        done = subprocess.run(
            [*prefix, *COMMAND, *words],
            input=typed,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def until(condition: Callable[[], object], *, what: str, deadline_s: float = DEADLINE_S) -> object:
    """Ask `condition`, often, until it is true and return its answer; fail at the deadline."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (answer := condition()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        pause.wait(0.002)
    return answer


class Recorder:
    """A recording that is under way, with its words and what it holds in the OS kernel."""

    def __init__(
        self,
        output: Path,
        *arguments: str | Path,
        words: Path | None = None,
        stdin: int | None = None,
    ) -> None:
        self.output = output
        self.spool = output.with_name(output.name + ".spool")
        self._words = words or output.with_name(output.name + ".stderr")
        command = [*COMMAND, "-o", str(output), *map(str, arguments)]
        with self._words.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdin=stdin, stderr=stderr)
        self.pid = self.process.pid
        self.held: set[int] = set()

    def words(self) -> str:
        """Return all it has said so far."""
        return self._words.read_text()

    def live(self) -> "Recorder":
        """Wait until it records what it has attached to."""
        until(
            lambda: "\ntracing pid" in f"\n{self.words()}" or self.process.poll() is not None,
            what="the recorder is live",
        )
        assert self.process.poll() is None, self.words()
        self.held = programs_held_by(self.pid)
        assert self.held
        return self

    def wait_to_say(self, text: str) -> None:
        """Wait for words of it."""
        until(lambda: text in self.words(), what=f"it says {text!r}")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end and return its exit code; what it had in the OS kernel is gone."""
        code = self.process.wait(timeout=DEADLINE_S)
        assert "Traceback" not in self.words(), self.words()
        until(
            lambda: not self.held & {program["id"] for program in bpf_programs()},
            what="the programs of this recorder are gone",
        )
        return code

    def stop(self) -> int:
        """End the recording as Ctrl-C does and return the exit code."""
        self.signal(signal.SIGINT)
        return self.wait()

    def close(self) -> None:
        """End what still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def bpf_programs() -> list[dict[str, Any]]:
    """Return the BPF programs that the OS kernel holds and that carry a name of ours."""
    listing = subprocess.run(
        ["bpftool", "--json", "prog", "show"], capture_output=True, timeout=DEADLINE_S, check=True
    )
    programs: list[dict[str, Any]] = json.loads(listing.stdout)
    return [program for program in programs if program.get("name") in OUR_PROGRAMS]


def programs_held_by(pid: int | str) -> set[int]:
    """Return the ids of the BPF programs that a process has open."""
    held = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(OSError):
                for line in entry.read_text().splitlines():
                    if line.startswith("prog_id:"):
                        held.add(int(line.split()[1]))
    return held


def orphaned_programs() -> set[int]:
    """Return the programs of ours that no process holds: what a recording left behind."""
    ours = {program["id"] for program in bpf_programs()}
    if ours:
        for entry in Path("/proc").glob("[0-9]*"):
            ours -= programs_held_by(entry.name)
    return ours


def assert_whole(words: str) -> None:
    """Hold the last words of a recorder to it that nothing was dropped or cut off.

    A switch or wakeup that the OS kernel hides from BPF programs (see keep_to_cpu) is unmatched,
    and no fault of ours.
    """
    assert "\nwrote " in f"\n{words}", words
    assert not re.search(r"(dropped|truncated|rate-limited):", words), words


def keep_to_cpu(pid: int, cpu: int, *, priority: int = 2) -> None:
    """Let the first thread of a process, and what it starts, run on one CPU, before all others.

    Some systems run no BPF program while a process that guards them is current, and so hide a
    switch or a wakeup of ours next to it. Real-time threads keep everything else off their CPU as
    long as one of them can run, for less than a second: then the OS kernel lets others in.
    """
    os.sched_setaffinity(pid, {cpu})
    with suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(priority))


def spool_records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield kind and bytes of the records of a spool, by the comments of bpf/records.h."""
    data = path.read_bytes()
    position = 16
    while position + 8 <= len(data):
        length = struct.unpack_from("<I", data, position)[0]
        size, discarded = length & 0x3FFFFFFF, length & (1 << 30)
        record = data[position + 8 : position + 8 + size]
        position += 8 + (size + 7 & ~7)
        if not discarded:
            yield struct.unpack_from("<H", record)[0], record


def query(trace: Path, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of one query."""
    with duckdb.connect(str(trace), read_only=True) as connection:
        return connection.execute(sql, list(parameters)).fetchall()


def meta(trace: Path) -> dict[str, str]:
    """Return the facts of a trace."""
    return dict(query(trace, "SELECT key, value FROM meta"))


def thread_id(trace: Path, tid: int) -> int:
    """Return the key of the only thread that had this tid."""
    ((found,),) = query(trace, "SELECT thread_id FROM thread WHERE tid = ?", [tid])
    return int(found)


def thread_times(trace: Path, tid: int) -> dict[str, int]:
    """Return where the lifetime of a thread went."""
    names = ("running_ns", "runnable_ns", "sleeping_ns", "blocked_ns", "lost_ns", "lifetime_ns")
    rows = query(
        trace,
        "SELECT running_ns, runnable_ns, sleeping_ns, blocked_ns, lost_ns, lifetime_ns"
        " FROM thread_time WHERE thread_id = ?",
        [thread_id(trace, tid)],
    )
    return dict(zip(names, rows[0], strict=True))


def state_ns(trace: Path, tid: int, state: str, *, start_ns: int, end_ns: int) -> int:
    """Return how long a thread was in a state, within a window."""
    ((found,),) = query(
        trace,
        "SELECT coalesce(sum(least(end_ns, $2) - greatest(start_ns, $1)), 0)::BIGINT"
        " FROM thread_state WHERE start_ns < $2 AND end_ns > $1 AND thread_id = $3 AND state = $4",
        [start_ns, end_ns, thread_id(trace, tid), state],
    )
    return int(found)


LIFETIMES = """
SELECT t.thread_id, t.end_ns - t.start_ns - t.lost_ns - coalesce(sum(s.end_ns - s.start_ns), 0)
FROM thread AS t LEFT JOIN thread_state AS s ON s.thread_id = t.thread_id
GROUP BY t.thread_id, t.end_ns, t.start_ns, t.lost_ns
HAVING sum(s.end_ns - s.start_ns) + t.lost_ns <> t.end_ns - t.start_ns
"""
OVERLAPS = """
WITH ordered AS (
  SELECT thread_id, start_ns, end_ns,
    lag(end_ns) OVER (PARTITION BY thread_id ORDER BY start_ns, end_ns) AS before_ns
  FROM thread_state
)
SELECT o.thread_id, o.start_ns FROM ordered AS o JOIN thread AS t ON t.thread_id = o.thread_id
WHERE o.end_ns <= o.start_ns OR o.start_ns < coalesce(o.before_ns, t.start_ns)
  OR o.end_ns > t.end_ns
"""
GAPS = """
WITH ordered AS (
  SELECT thread_id, start_ns,
    lag(end_ns) OVER (PARTITION BY thread_id ORDER BY start_ns) AS before_ns
  FROM thread_state
)
SELECT o.thread_id, o.start_ns FROM ordered AS o JOIN thread AS t ON t.thread_id = o.thread_id
WHERE t.lost_ns = 0 AND o.start_ns <> coalesce(o.before_ns, t.start_ns)
"""


def assert_conserved(trace: Path) -> None:
    """Hold every thread to the law: its states tile its lifetime, less what was lost."""
    assert query(trace, "SELECT count(*) FROM thread") > [(0,)]
    assert query(trace, LIFETIMES) == []
    assert query(trace, OVERLAPS) == []
    assert query(trace, GAPS) == []
