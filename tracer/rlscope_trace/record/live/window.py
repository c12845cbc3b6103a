"""What changed between two readings of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.record.live.view import LEAST_SAMPLES, Times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlscope_trace.record.live.reading import Phase, Reading, Thread

_NOTHING = Times(0.0, 0.0, 0.0, 0.0)
_PYTHON = 1


class Change:
    """What a thread did between two readings; `before` is None where it entered in between."""

    def __init__(self, before: Thread | None, after: Thread) -> None:
        self.thread = after
        self._before = before
        self.running_ns = self._since("running_ns")
        self.runnable_ns = self._since("runnable_ns")
        self.waiting_ns = self._since("sleeping_ns") + self._since("blocked_ns")
        self.lost_ns = self._since("lost_ns")
        self.switches = self._since("switches")

    def _since(self, name: str) -> int:
        was = 0 if self._before is None else getattr(self._before, name)
        return max(int(getattr(self.thread, name)) - int(was), 0)

    @property
    def all_ns(self) -> int:
        """Return the time that is accounted for."""
        return self.running_ns + self.runnable_ns + self.waiting_ns + self.lost_ns

    def times(self) -> Times:
        """Return the shares of the time that is accounted for."""
        if not (whole := self.all_ns):
            return _NOTHING
        return Times(
            self.running_ns / whole, self.runnable_ns / whole, self.waiting_ns / whole,
            self.lost_ns / whole,
        )  # fmt: skip

    def samples(self) -> list[int]:
        """Return the samples of the window by layer."""
        was = self._before.samples if self._before else (0,) * len(self.thread.samples)
        return [now - then for now, then in zip(self.thread.samples, was, strict=True)]

    def queue(self) -> list[int]:
        """Return the waits for a CPU by length."""
        was = self._before.queue if self._before else (0,) * len(self.thread.queue)
        return [now - then for now, then in zip(self.thread.queue, was, strict=True)]

    def slept_by(self) -> dict[int, tuple[int, int]]:
        """Return by waker how often it was woken, and how long it had slept (ns)."""
        was = self._before.wakers if self._before else {}
        slept = {}
        for waker, (count, ns) in self.thread.wakers.items():
            count_was, ns_was = was.get(waker, (0, 0))
            if count > count_was:
                slept[waker] = (count - count_was, ns - ns_was)
        return slept


def changes(before: Reading, after: Reading) -> list[Change]:
    """Return what each thread did that is there now, or ended in between."""
    return [Change(before.threads.get(key), thread) for key, thread in after.threads.items()]


def python_share(changed: Iterable[Change]) -> float | None:
    """Return the share of Python among the samples that have a layer; None: too few."""
    totals = [sum(column) for column in zip(*(c.samples() for c in changed), strict=True)]
    known = sum(totals[_PYTHON:])
    return totals[_PYTHON] / known if known >= LEAST_SAMPLES else None


def phase_changes(before: Reading, after: Reading) -> list[tuple[Phase, int, int]]:
    """Return of each thread and phase: the sums now, and ns and steps since before."""
    was = {_key(phase): phase for phase in before.phases}
    changed = []
    for phase in after.phases:
        then = was.get(_key(phase))
        self_ns = phase.self_ns - (then.self_ns if then else 0)
        steps = phase.steps - (then.steps if then else 0)
        changed.append((phase, max(self_ns, 0), max(steps, 0) if phase.is_auto else 0))
    return changed


def _key(phase: Phase) -> tuple[int, int, str, bool]:
    return (phase.pid, phase.tid, phase.name, phase.is_auto)


def function_shares(readings: Sequence[Reading], most: int) -> list[tuple[str, float]]:
    """Return the functions that most samples of these readings hit, and their shares of all."""
    counts: dict[str, int] = {}
    for reading in readings:
        for name, samples in reading.functions:
            counts[name] = counts.get(name, 0) + sum(samples)
    whole = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(name, count / whole) for name, count in ordered[:most]]


def gpu_share(before: Reading, after: Reading) -> float | None:
    """Return what GPUs did, added up, as a share of the window; None: nobody reported any."""
    if not after.gpu_ns:
        return None
    busy_ns = sum(ns - before.gpu_ns.get(pid, 0) for pid, ns in after.gpu_ns.items())
    return max(busy_ns, 0) / (after.now_ns - before.now_ns)


def by_process(changed: Iterable[Change]) -> Mapping[int, list[Change]]:
    """Return the threads of each process."""
    processes: dict[int, list[Change]] = {}
    for change in changed:
        processes.setdefault(change.thread.pid, []).append(change)
    return processes
