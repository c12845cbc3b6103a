"""The benchmark of overhead: two runs begin together, and share their CPU to the end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench_lib.figure import BenchError
from bench_lib.together import companion as companion_module
from bench_lib.together import runs
from bench_lib.together.companion import Companion, companion, step_in
from bench_lib.together.gate import gates, let_go
from bench_lib.together.runs import BothAtOnce
from validated_runs import runner

if TYPE_CHECKING:
    from collections.abc import Callable


AT_THE_GATE = "import os, sys; open(sys.argv[1], 'w').write(str(os.sched_getaffinity(0)))"


def at_gate(tmp_path: Path, gate: Path) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", AT_THE_GATE, str(tmp_path / "told")]
    return subprocess.Popen(runs._at_gate(gate, program))


def test_runs_wait_at_their_gates_until_they_are_let_go(
    tmp_path: Path, poll_until: Callable[..., None]
) -> None:
    cpu = min(os.sched_getaffinity(0))
    opened: list[int] = []
    with gates(tmp_path, "one", "other") as both:
        run = at_gate(tmp_path, both[0])
        poll_until(lambda: hold(both[0], opened), what="the run waits at its gate")
        other = subprocess.Popen(["cat", str(both[1])], stdout=subprocess.PIPE)
        let_go(zip(both, (run, other), strict=True), cpu)
        assert other.communicate() == (str(cpu).encode(), None)
        # As long as somebody else may still write to it.
        assert not (tmp_path / "told").exists()
        os.close(opened[0])
        assert run.wait(30) == 0
    assert (tmp_path / "told").read_text() == str({cpu})
    assert not any(path.exists() for path in both)


def test_none_is_let_go_where_one_has_ended_before(tmp_path: Path) -> None:
    with gates(tmp_path, "one", "dead") as both:
        run, dead = at_gate(tmp_path, both[0]), subprocess.Popen(["true"])
        let_go(zip(both, (run, dead), strict=True), 0)
        assert run.wait(30) == 125
    dead.wait(30)
    assert not (tmp_path / "told").exists()


def test_whoever_waits_at_a_gate_can_be_interrupted(
    tmp_path: Path, poll_until: Callable[..., None]
) -> None:
    opened: list[int] = []
    with gates(tmp_path, "one") as (gate,):
        run = at_gate(tmp_path, gate)
        poll_until(lambda: hold(gate, opened), what="the run waits at its gate")
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == -signal.SIGINT
        os.close(opened[0])


def test_a_run_that_was_started_ends_where_the_one_beside_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[runs.Started] = []
    both = BothAtOnce(runner(tmp_path, "raise SystemExit('it must not begin')"), None)
    alone = BothAtOnce._start_untraced

    def start(*arguments: object) -> runs.Started:
        started.append(alone(*arguments))  # type: ignore[arg-type]
        return started[0]

    def refuse(*_: object) -> None:
        raise BlockingIOError("no process can be had")

    monkeypatch.setattr(BothAtOnce, "_start_untraced", start)
    monkeypatch.setattr(BothAtOnce, "_start_traced", refuse)
    with pytest.raises(BlockingIOError):
        both.together(tmp_path / "trace.duckdb")
    assert started[0].process.poll() is not None
    assert not (tmp_path / "run" / "untraced").exists()


@dataclass
class Ends:
    """A run that ends when it is told to."""

    is_over: bool = False

    def has_ended(self) -> bool:
        return self.is_over

    def niceness(self) -> int:
        if self.is_over:
            raise ProcessLookupError
        return 7


def test_the_cpu_stays_busy_for_the_run_that_ends_last(poll_until: Callable[..., None]) -> None:
    cpu = max(os.sched_getaffinity(0))
    first, last = Ends(), Ends()
    with companion(cpu) as other:
        waiting_ns = cpu_ns(other.pid)
        stepping = threading.Thread(target=step_in, args=(other, [first, last]), daemon=True)
        stepping.start()
        first.is_over = True
        poll_until(lambda: cpu_ns(other.pid) - waiting_ns > 50_000_000, what="it keeps busy")
        assert os.sched_getaffinity(other.pid) == {cpu}
        # As the run it is there for: one that gives way to others goes on all the same.
        assert os.getpriority(os.PRIO_PROCESS, other.pid) == 7
        assert stepping.is_alive()
        last.is_over = True
        stepping.join(30)
        assert not stepping.is_alive()
        # Nothing of it is left to disturb what follows.
        with pytest.raises(ProcessLookupError):
            os.kill(other.pid, 0)


def test_runs_that_end_at_the_same_time_need_nobody() -> None:
    with companion(max(os.sched_getaffinity(0))) as other:
        step_in(other, [Ends(is_over=True), Ends(is_over=True)])
        with pytest.raises(ProcessLookupError):
            os.kill(other.pid, 0)


def test_a_pair_whose_cpu_was_not_kept_busy_does_not_count(
    poll_until: Callable[..., None],
) -> None:
    first, last = Ends(is_over=True), Ends()
    failed: list[BaseException] = []

    def step() -> None:
        try:
            step_in(other, [first, last])
        except BenchError as error:
            failed.append(error)

    with companion(max(os.sched_getaffinity(0))) as other:
        stepping = threading.Thread(target=step, daemon=True)
        stepping.start()
        poll_until(lambda: cpu_ns(other.pid) > 50_000_000, what="it keeps busy")
        pidfd = os.pidfd_open(other.pid)
        os.kill(other.pid, signal.SIGKILL)
        # A signal that was sent has not ended anything yet.
        assert select.select([pidfd], [], [], 30)[0]
        os.close(pidfd)
        last.is_over = True
        stepping.join(30)
    assert "has ended" in str(failed[0])


def test_runs_at_once_share_their_cpu_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_ns: list[int] = []

    class Seen(Companion):
        def end(self) -> None:
            if self.process.poll() is None:
                busy_ns.append(cpu_ns(self.pid))
            Companion.end(self)

    monkeypatch.setattr(companion_module, "Companion", Seen)
    monkeypatch.setattr(BothAtOnce, "_start_traced", start_unrecorded)
    program = (
        "import json, os, time\n"
        "timers = os.environ['RLSCOPE_TIMERS']\n"
        "while time.process_time() < 0.5 * (not timers.endswith('untraced')): pass\n"
        "open(timers, 'w').write(json.dumps({'operation': 'work', 'cpu_ns': 1}))\n"
    )
    both = BothAtOnce(runner(tmp_path, program, timers=tmp_path / "timers"), None)
    untraced, traced = both.together(tmp_path / "trace.duckdb")
    assert traced.cpu_ns - untraced.cpu_ns > 300_000_000
    assert busy_ns[0] > 200_000_000


def start_unrecorded(self: BothAtOnce, trace: Path, gate: Path) -> runs.Started:
    trace.touch()
    timers = self.runner.timers
    command = runs._at_gate(gate, self.runner.measured(runs.TRACED, timers))
    return self.runner.start(runs.TRACED, command, timers, preexec_fn=os.setpgrp)


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process's main thread, by the OS kernel's account."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def hold(gate: Path, opened: list[int]) -> bool:
    """Open the gate for writing, if somebody waits at it."""
    with suppress(OSError):
        opened.append(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
    return bool(opened)
