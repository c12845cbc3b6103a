"""Programs of one thread and three streams, made by chance, that know what they waited for.

Each thing that such a program does is told when it begins and what it waits for: its critical path
follows from that, and from nothing that a trace says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from kineto_builder import annotation, call, kernel, op, slice_

if TYPE_CHECKING:
    from kineto_builder import Event

STREAMS = (7, 20, 21)
# Whatever the GPU waits for, it begins so long after it: what came last is what it waited for.
_CALL_US, _BEGIN_US, _RETURN_US = 4, 2, 3


@dataclass(slots=True)
class Work:
    """An activity of the GPU, and what it began after: its launch, or other work."""

    stream: int
    start_us: int
    end_us: int
    launched_us: int
    after: Work | None


@dataclass(slots=True)
class Program:
    """A program that has run: what a profiler would have seen of it, and what it waited for."""

    random: Random
    has_events: bool = True
    """Whether streams and the thread wait for events, too."""
    now_us: int = 0
    events: list[Event] = field(default_factory=list)
    waits: list[tuple[int, int, Work]] = field(default_factory=list)
    """From when to when the thread waited, and for which work."""
    steps: list[tuple[int, int]] = field(default_factory=list)
    _last: dict[int, Work] = field(default_factory=dict)
    _recorded: list[tuple[int, int, Work | None]] = field(default_factory=list)
    """Events: the call, its stream, and what they stand for."""
    _reported: dict[int, list[Work]] = field(default_factory=dict)
    """What each stream was told to wait for before its next work."""
    _correlation: int = 0
    _ends_us: set[int] = field(default_factory=set)

    def step(self, actions: int) -> None:
        """Do so many things, then wait for the GPU."""
        start_us = self.now_us
        for _ in range(actions):
            self._act()
        self._wait_for_all()
        self._compute(self.random.randint(1, 20))
        self.steps.append((start_us, self.now_us))
        number = len(self.steps)
        self.events.append(annotation(f"ProfilerStep#{number}", start_us, self.now_us))
        self._compute(self.random.randint(1, 10))

    def on_gpu_us(self, step: tuple[int, int]) -> dict[int, set[int]]:
        """Return the microseconds of a step in which each stream worked on the critical path."""
        found: dict[int, set[int]] = {}
        at_us = step[1]
        for _, returned_us, work in reversed(self.waits):
            # What the thread waited for before it launched what is on the path held up nothing.
            if not step[0] < returned_us <= at_us:
                continue
            one: Work | None = work
            while one is not None:
                found.setdefault(one.stream, set()).update(range(one.start_us, one.end_us))
                at_us = one.launched_us
                one = one.after
        return found

    def _act(self) -> None:
        chosen = self.random.random()
        stream = self.random.choice(STREAMS[: self.random.randint(1, len(STREAMS))])
        if chosen < 0.5:
            self._launch(stream, self.random.choice((2, 10, 40, 150)))
        elif chosen < 0.65:
            self._compute(self.random.choice((3, 20, 90)))
        elif not self.has_events:
            self._wait_for_stream(stream)
        elif chosen < 0.75:
            self._record(stream)
        elif chosen < 0.88:
            self._tell(stream)
        elif chosen < 0.93:
            self._wait_for_stream(stream)
        elif chosen < 0.97:
            self._wait_for_event()
        else:
            self._wait_for_all()

    def _compute(self, length_us: int) -> None:
        self.events.append(op("aten::compute", self.now_us, self.now_us + length_us))
        self.now_us += length_us

    def _call(self, name: str, length_us: int) -> int:
        self._correlation += 1
        start_us = self.now_us
        self.now_us += length_us
        self.events.append(call(name, start_us, self.now_us, self._correlation))
        return self._correlation

    def _launch(self, stream: int, length_us: int) -> None:
        start_us = self.now_us
        before = [self._last[stream]] if stream in self._last else []
        before += self._reported.pop(stream, ())
        ends_us = {one.end_us for one in before}
        # Of two things at one instant either would be right.
        while (launched_us := self.now_us + 2 + _CALL_US) in ends_us:
            self.now_us += 1
        self.now_us += 2
        correlation = self._call("cudaLaunchKernel", _CALL_US)
        self.now_us += 1
        self.events.append(op("aten::mm", start_us, self.now_us))
        last = max(before, key=lambda one: one.end_us, default=None)
        after = last if last is not None and last.end_us > launched_us else None
        begin_us = (launched_us if after is None else after.end_us) + _BEGIN_US
        while begin_us + length_us in self._ends_us:
            length_us += 1
        self._ends_us.add(begin_us + length_us)
        self._last[stream] = Work(stream, begin_us, begin_us + length_us, launched_us, after)
        name = f"kernel_{correlation}"
        self.events.append(
            kernel(name, begin_us, begin_us + length_us, correlation, stream=stream, queued=0)
        )

    def _record(self, stream: int) -> None:
        correlation = self._call("cudaEventRecord", 1)
        self._recorded.append((correlation, stream, self._last.get(stream)))

    def _tell(self, stream: int) -> None:
        others = [one for one in self._recorded if one[1] != stream and one[2] is not None]
        if not others:
            return
        event = self.random.choice(others[-3:])
        correlation = self._call("cudaStreamWaitEvent", 1)
        self._sync("Stream Wait Event", correlation, self.now_us - 1, self.now_us, stream, event)
        assert event[2] is not None
        self._reported.setdefault(stream, []).append(event[2])

    def _wait_for_event(self) -> None:
        events = [one for one in self._recorded if one[2] is not None]
        if not events:
            return
        event = self.random.choice(events[-3:])
        start_us = self.now_us
        correlation = self._wait("cudaEventSynchronize", [event[2]])
        self._sync("Event Sync", correlation, start_us, self.now_us, -1, event)

    def _wait_for_stream(self, stream: int) -> None:
        start_us = self.now_us
        correlation = self._wait("cudaStreamSynchronize", [self._last.get(stream)])
        self._sync("Stream Sync", correlation, start_us, self.now_us, stream, None)

    def _wait_for_all(self) -> None:
        start_us = self.now_us
        correlation = self._wait("cudaDeviceSynchronize", list(self._last.values()))
        self._sync("Context Sync", correlation, start_us, self.now_us, -1, None)

    def _wait(self, name: str, works: list[Work | None]) -> int:
        last = max((one for one in works if one), key=lambda one: one.end_us, default=None)
        start_us = self.now_us
        until_us = start_us if last is None else max(last.end_us, start_us)
        correlation = self._call(name, until_us - start_us + _RETURN_US)
        if last is not None and last.end_us > start_us:
            self.waits.append((start_us, self.now_us, last))
        return correlation

    def _sync(
        self, kind: str, correlation: int, start_us: int, end_us: int, stream: int,
        event: tuple[int, int, Work | None] | None,
    ) -> None:  # fmt: skip
        args: dict[str, Any] = {
            "cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": 0,
            "context": 1,
        }  # fmt: skip
        if event is not None:
            args |= {
                "wait_on_stream": event[1], "wait_on_cuda_event_record_corr_id": event[0],
                "wait_on_cuda_event_id": event[0],
            }  # fmt: skip
        self.events.append(slice_("cuda_sync", kind, start_us, end_us, pid=0, tid=stream, **args))


def made_program(seed: int, *, has_events: bool = True) -> Program:
    """Return the program of a seed, of four steps: always the same."""
    program = Program(Random(seed), has_events)
    for _ in range(4):
        program.step(40)
    return program
