"""Attached to one program again and again: it works on, and neither it nor the OS kernel grows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from soak_lib.compare import require_law
from soak_lib.footprint import Footprint, footprint, os_kernel_memory
from soak_lib.home import MODULE, FailureError, Home, read_truth
from soak_lib.os_kernel import held_objects, require_gone, until
from soak_lib.progress import Progress, say

if TYPE_CHECKING:
    from collections.abc import Sequence

_THREADS = 4
_DURATION_S = 0.2
_INJECTED = 10
_SAVED = 20
"""Every so many cycles a recorder loads its shim into the program, and saves its trace."""
_WARM_UP = 0.2
"""The share of the cycles after which nothing may grow any more."""
_MOST_BYTES = 1 << 20
_RING_BYTES = 2 << 20
"""Of each thread that marks: shared with the recorder, and filled bit by bit (cupti/records.h)."""
_MOST_MAPPINGS = 2
_DEADLINE_S = 120


def run(home: Home, cycles: int) -> bool:
    """Attach so many times; tell whether all went well."""
    progress = Progress("attach", cycles)
    say(f"attach: {cycles:,} recordings of {_DURATION_S} s of one program, in {home.folder}")
    attaching = Attaching(home, progress)
    before = os_kernel_memory()
    try:
        attaching.start()
        for number in range(cycles):
            attaching.cycle(number)
            progress.step(f"the program: {attaching.seen[-1]}")
        attaching.end()
    except FailureError as error:
        say(f"error: cycle {progress.done}: {error}\nhint: see {home.folder}")
        return False
    finally:
        attaching.close()
        say(progress.line())
        for line in reported(attaching.seen):
            say(f"attach: {line}")
        say(f"attach: {grown(before, os_kernel_memory())}")
    return True


class Attaching:
    """The program, and what it took after each cycle."""

    def __init__(self, home: Home, progress: Progress) -> None:
        self.home = home
        self.progress = progress
        self.target: subprocess.Popen[bytes] | None = None
        self.recorder: subprocess.Popen[bytes] | None = None
        self.seen: list[Footprint] = []
        self._truth = home.folder / "truth.json"
        self._until = home.folder / "until"
        self._trace = home.folder / "trace.duckdb"
        self._words = home.folder / "words"

    def start(self) -> None:
        """Start the program."""
        options = ("--truth", self._truth, "--until", self._until, "--threads", _THREADS)
        self.target = subprocess.Popen(
            self.home.program("worker", *options), env=self.home.environment(),
            start_new_session=True,
        )  # fmt: skip
        started = self._truth.with_name("truth.json.started")
        until(started.exists, "the program works", _DEADLINE_S)

    def cycle(self, number: int) -> None:
        """Attach, record, detach; look at the program and at the OS kernel."""
        pid = self._running().pid
        worked_ns = cpu_ns(pid)
        self.recorder = recorder = self._attach(pid, inject=number % _INJECTED == 0)
        self._wait_for("tracing pid")
        held = held_objects(recorder.pid)
        self._wait_for(" records")
        self._finish(recorder, saves=(number + 1) % _SAVED == 0)
        require_gone(held)
        self.progress.counts["programs, maps and links came and went"] += sum(
            len(ids) for ids in held.values()
        )
        require_own_code(pid)
        if cpu_ns(pid) == worked_ns:
            raise FailureError("the program does not work on")
        self.seen.append(footprint(pid))
        self._require_flat()

    def end(self) -> None:
        """Let the program end; hold it to its own count of what it did."""
        self._until.touch()
        if self._running().wait(_DEADLINE_S) != 0:
            raise FailureError(f"the program ended with {self._running().returncode}")
        self.progress.counts["rounds of work, none wrong"] = read_truth(self._truth)["rounds"]

    def close(self) -> None:
        """End what still runs."""
        for process in (self.recorder, self.target):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self.target is None or self.target.poll() not in (None, 0):
            raise FailureError("the program has ended")
        return self.target

    def _attach(self, pid: int, *, inject: bool) -> subprocess.Popen[bytes]:
        command = [self.home.recorder, "--pid", str(pid), "-d", str(_DURATION_S), "--force"]
        command += ["-o", str(self._trace), "--simulator", MODULE]
        command += ["--inject"] if inject else []
        self.progress.counts["with a shim"] += inject
        with self._words.open("wb") as words:
            return subprocess.Popen(
                command, env=self.home.environment(), stdin=subprocess.DEVNULL, stdout=words,
                stderr=words, start_new_session=True,
            )  # fmt: skip

    def _wait_for(self, text: str) -> None:
        recorder = self.recorder
        until(
            lambda: (
                text in self._words.read_text()
                or (recorder is not None and recorder.poll() is not None)
            ),
            f"the recorder says {text!r}",
            _DEADLINE_S,
        )
        if text not in self._words.read_text():
            raise FailureError(f"the recorder failed: {self._words.read_text()}")

    def _finish(self, recorder: subprocess.Popen[bytes], *, saves: bool) -> None:
        """Let it save, or end it: it has detached, and saving is no part of that."""
        found = re.search(r"([\d,]+) records", self._words.read_text())
        if found is None or found[1] == "0":
            raise FailureError(f"nothing was recorded: {self._words.read_text()}")
        self.progress.counts["records"] += int(found[1].replace(",", ""))
        if saves:
            if recorder.wait(_DEADLINE_S) != 0:
                raise FailureError(f"a trace was not saved: {self._words.read_text()}")
            require_law(self._trace)
            self.progress.counts["saved"] += 1
            return
        recorder.kill()
        recorder.wait()
        shutil.rmtree(f"{self._trace}.spool", ignore_errors=True)
        shutil.rmtree(f"{self._trace}.partial", ignore_errors=True)

    def _require_flat(self) -> None:
        """Compare the program with itself after the warm-up."""
        first = max(int(self.progress.total * _WARM_UP), 1)
        if len(self.seen) > first:
            growth = self.seen[-1].less(self.seen[first - 1])
            if growth.fds or growth.threads or growth.mappings > _MOST_MAPPINGS:
                raise FailureError(f"the program has grown: {growth}")
            shared_bytes = growth.rss_bytes - growth.anonymous_bytes
            is_larger = growth.anonymous_bytes > _MOST_BYTES
            if is_larger or shared_bytes > _MOST_BYTES + (1 + _THREADS) * _RING_BYTES:
                raise FailureError(f"the memory of the program has grown: {growth}")


def reported(seen: Sequence[Footprint]) -> list[str]:
    """Return what the program took, first and last."""
    if not seen:
        return []
    first = seen[min(max(int(len(seen) * _WARM_UP), 1), len(seen)) - 1]
    return [
        f"the program after the first cycle: {seen[0]}",
        f"the program after the warm-up: {first}",
        f"the program at the end: {seen[-1]}",
    ]


def grown(before: dict[str, int], after: dict[str, int]) -> str:
    """Return how the memory of the OS kernel has changed, that of everything else included."""
    parts = [f"{name} {(after[name] - before[name]) / 1e6:+.1f} MB" for name in before]
    return f"memory of the OS kernel, with all that runs here: {', '.join(parts)}"


def cpu_ns(pid: int) -> int:
    """Return the CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def require_own_code(pid: int) -> None:
    """Hold the code of the module that was probed to its file: no breakpoint is left in it."""
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb") as memory:
        for line in maps:
            addresses, rights, offset, _, _, *path = line.split()
            if "x" in rights and path and MODULE in path[0]:
                start, end = (int(address, 16) for address in addresses.split("-"))
                memory.seek(start)
                code = memory.read(end - start)
                there = Path(path[0]).read_bytes()[int(offset, 16) :][: len(code)]
                if not code.startswith(there):
                    raise FailureError(f"the code of {path[0]} has been changed in the program")
