"""Records programs with native calls: launches them, waits for probes, reads what was recorded."""

import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conftest import WORKLOADS, Workload
from phases_harness import RL_PYTHON
from recording import COMMAND, DEADLINE_S, query, until

# What a running thread can do, as the view breakdown names it.
RUNNING = ("python", "simulator", "backend", "cuda_api", "spin", "other", "running")


class Launched(Workload):
    """A program of tests/workloads under the recorder, which waits for us with --wait."""

    def __init__(
        self,
        trace: Path,
        command: Sequence[str | Path],
        options: Sequence[str] = (),
        modules: Path | None = None,
    ) -> None:
        """modules: the folder of compiled modules that the program imports."""
        self.trace = trace
        self.spool = trace.with_name(trace.name + ".spool")
        self._words = trace.with_name(trace.name + ".stderr")
        folders = [str(modules)] if modules else []
        folders += filter(None, [os.environ.get("PYTHONPATH")])
        with self._words.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*COMMAND, "-o", str(trace), "--no-auto", *options, "--", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # Some libraries leave logs where they are.
                cwd=trace.parent,
                env={**os.environ, "PYTHONPATH": ":".join(folders)},
            )
        self.pid = self.process.pid
        self._unread = b""

    def ready(self) -> "Launched":
        """Wait until the program warms up."""
        while not self.readline(deadline_s=DEADLINE_S).startswith("ready "):
            pass
        return self

    def child(self) -> int:
        """Return the pid of the program."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/children")
        (child,) = {int(word) for file in tasks for word in file.read_text().split()}
        return child

    def words(self) -> str:
        """Return what the recorder has said so far."""
        return self._words.read_text()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return what the recorder has noted of its probes so far."""
        return events(self.spool, kind)

    def probed(self, module: str, count: int = 1) -> "Launched":
        """Wait until so many functions of a module are probed."""
        until_probed(self.spool, module, count)
        return self

    def finished(self) -> dict[str, Any]:
        """Let it work; return its truth when the trace is saved."""
        self.go()
        truth = self.truth(deadline_s=120)
        assert self.wait(deadline_s=120) == 0, self.words()
        assert "Traceback" not in self.words(), self.words()
        return truth


def events(spool: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind that a recorder has noted in its spool so far."""
    file = spool / "probes.jsonl"
    if not file.exists():
        return []
    whole = file.read_text().rpartition("\n")[0]
    return [event for event in map(json.loads, whole.splitlines()) if event["event"] == kind]


def until_probed(spool: Path, module: str, count: int = 1) -> None:
    """Wait until so many functions of a module are probed."""
    until(
        lambda: probed_sites(spool, module) >= count,
        what=f"{count} functions of {module} are probed",
        # Beside other work PyTorch alone takes a minute to load.
        deadline_s=180,
    )


def probed_sites(spool: Path, module: str) -> int:
    """Return how many functions of a module are probed by now."""
    found = (event for event in events(spool, "site") if event["state"] == "probed")
    return sum(module in Path(event["module"]).name for event in found)


def python_program(name: str, *arguments: str, python: str = RL_PYTHON) -> list[str]:
    """Return the command that runs a workload."""
    return [python, str(WORKLOADS / f"{name}.py"), *arguments]


def end(started: Sequence[Workload]) -> None:
    """End what still runs, the launched programs with their recorders."""
    for made in started:
        if made.process.poll() is None:
            made.process.send_signal(signal.SIGINT)
            made.process.send_signal(signal.SIGTERM)
        made.close()


def until_used(pid: int, cpu_s: float) -> None:
    """Wait until a process has used so much more CPU time."""

    def used() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    begun = used()
    until(lambda: used() > begun + cpu_s, what=f"pid {pid} has used {cpu_s} s of CPU time")


def buckets(trace: Path, tid: int, operation: str) -> Counter[str]:
    """Return where the time of a thread went within an operation: bucket -> ns."""
    rows = query(
        trace,
        "SELECT b.bucket, sum(b.time_ns)::BIGINT FROM breakdown AS b JOIN thread AS t"
        " ON t.thread_id = b.thread_id WHERE t.tid = ? AND b.operation = ? GROUP BY 1",
        [tid, operation],
    )
    return Counter(dict(rows))


def running_ns(found: Counter[str]) -> int:
    """Return the time on a CPU."""
    return sum(found[bucket] for bucket in RUNNING)


def sampled(trace: Path, start_ns: int, end_ns: int, where: str = "true") -> Counter[str | None]:
    """Return the samples in a window by layer; `where`: of the columns of thread (t)."""
    rows = query(
        trace,
        "SELECT s.layer, count(*) FROM cpu_sample AS s JOIN thread AS t"
        " ON t.thread_id = s.thread_id JOIN process AS p ON p.process_id = t.process_id"
        f" WHERE s.ts_ns BETWEEN ? AND ? AND {where} GROUP BY 1",
        [start_ns, end_ns],
    )
    return Counter(dict(rows))


def error_points(share: float, samples: int) -> float:
    """Return the standard error of a share of independent samples, in percentage points."""
    return 100 * (max(share * (1 - share), 0.01) / max(samples, 1)) ** 0.5


def calls_by_symbol(trace: Path, where: str, values: Sequence[object] = ()) -> Counter[str]:
    """Return how often each probed function was called; `where`: of native_call (c)."""
    rows = query(
        trace,
        "SELECT s.symbol, count(*) FROM native_call AS c JOIN site AS s ON s.site_id = c.site_id"
        " JOIN thread AS t ON t.thread_id = c.thread_id"
        f" JOIN process AS p ON p.process_id = t.process_id WHERE {where} GROUP BY 1",
        list(values),
    )
    return Counter({plain(symbol): count for symbol, count in rows})


def plain(symbol: str) -> str:
    """Return the last part of a qualified name, in the spelling of Python."""
    last = re.split(r"\.|::", symbol.removesuffix("()"))[-1]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", last).lower()


Launch = Callable[..., Launched]
