"""A trace as Perfetto's protobuf: tracks, TrackEvents for the CPU, render stages for the GPU."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rlscope_analysis._perfetto import Writer
from rlscope_analysis.export import sources
from rlscope_analysis.export.facts import read_facts
from rlscope_analysis.export.gpu_extension import gpu_correlation_extension
from rlscope_analysis.export.names import Wording
from rlscope_analysis.export.protobuf import message, number, text
from rlscope_analysis.export.stream import add_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlscope_analysis.export.facts import Value
    from rlscope_analysis.export.identity import Process, Thread
    from rlscope_analysis.export.plan import GpuTrack, Plan
    from rlscope_analysis.export.sources import Kind
    from rlscope_analysis.export.stream import Pass

# Field numbers and values are those of perfetto/trace/trace_packet.proto and what it imports.
_PACKET = 1
_SEQUENCE, _SEQUENCE_FLAGS = 10, 13
_STATE_CLEARED_AND_NEEDED = 3
_MONOTONIC, _REALTIME, _BOOTTIME = 3, 1, 6
_EXPLICIT_ORDER = 3
_INSTANT = 3
# Descriptors have a sequence of their own: on that of the slices, viewers would take the last
# thread described for the one that every slice without a thread belongs to.
_SLICES, _DESCRIPTORS = 1, 2
# Of tracks below a thread or process: room for the lanes of the one before.
_RANK_STEP = 1_000_000

_FACTS_UUID = 1
_FIRST_UUID = 2


class PerfettoFormat:
    """Writes one trace; `passes` are to be run in order, after `head`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._process_uuids: dict[int, int] = {}
        self._thread_uuids: dict[int, int] = {}
        uuid = _FIRST_UUID
        for process in plan.processes:
            self._process_uuids[process.process_id] = uuid
            for place, thread in enumerate(process.threads, 1):
                self._thread_uuids[thread.thread_id] = uuid + place
            uuid += 1 + len(process.threads)
        self.writer = Writer.perfetto(first_uuid=uuid, first_specification=1)
        self._wakers = {
            thread.thread_id: f"{thread.label} (thread_id {thread.thread_id})"
            for thread in plan.threads()
        }

    def head(self) -> Iterator[bytes]:
        """Yield everything but the slices."""
        facts = read_facts(self._plan)
        yield self._defaults()
        yield from self._clocks(facts["clock"])
        yield gpu_correlation_extension()
        yield from self._tracks()
        for label in ("meta", "export", "coverage", "loss", "gpu_device"):
            for row in facts[label]:
                yield self._fact(label, row)

    def tail(self) -> bytes:
        """Return what comes after the slices: nothing."""
        return b""

    def passes(self) -> Iterator[Pass]:
        """Yield each pass as a function that prepares it."""
        for place, (name, kinds) in enumerate(self._plan.process_passes(), 1):
            yield partial(self._begin_process_pass, name, kinds, place)
        for place, (name, kinds) in enumerate(self._plan.thread_passes(), 1):
            yield partial(self._begin_thread_pass, name, kinds, place)
        if self._plan.gpu_tracks:
            yield self._begin_gpu_pass

    def _begin_process_pass(self, name: str, kinds: tuple[Kind, ...], place: int) -> bytes:
        self.writer.begin_pass()
        for process in self._plan.processes:
            self.writer.add_track(
                (process.process_id,),
                name,
                group=process.process_id,
                parent_uuid=self._process_uuids[process.process_id],
                rank=place * _RANK_STEP,
            )
        self._add_sources(kinds)
        return b""

    def _begin_thread_pass(self, name: str, kinds: tuple[Kind, ...], place: int) -> bytes:
        self.writer.begin_pass()
        for process in self._plan.processes:
            for thread in process.threads:
                uuid = self._thread_uuids[thread.thread_id]
                self.writer.add_track(
                    (thread.thread_id,),
                    name or "calls",
                    group=thread.thread_id,
                    scope=process.process_id,
                    uuid=0 if name else uuid,
                    parent_uuid=uuid,
                    rank=place * _RANK_STEP,
                )
        self._add_sources(kinds)
        return b""

    def _begin_gpu_pass(self) -> bytes:
        self.writer.begin_pass()
        processes = {process.process_id: process for process in self._plan.processes}
        for track in self._plan.gpu_tracks:
            process = processes.get(track.process_id or 0)
            owner = process.label if process else "process not known"
            self.writer.add_track(
                track.key,
                f"{owner} {track.label}",
                group=track.process_id or 0,
                scope=track.process_id or 0,
                constant=_gpu_fields(track),
            )
        self._add_sources((sources.GPU_ACTIVITY,))
        return b""

    def _add_sources(self, kinds: tuple[Kind, ...]) -> None:
        for kind in kinds:
            add_source(self.writer, self._plan, kind, Wording(), self._wakers)

    def _defaults(self) -> bytes:
        """Open the sequence: every time that follows is one of CLOCK_MONOTONIC."""
        contexts = [
            message(23, number(1, process.process_id), number(2, process.pid))
            for process in self._plan.processes
        ]
        return message(
            _PACKET,
            number(_SEQUENCE, _SLICES),
            number(_SEQUENCE_FLAGS, _STATE_CLEARED_AND_NEEDED),
            message(59, number(58, _MONOTONIC)),
            message(12, *contexts),
        )

    def _clocks(self, rows: list[dict[str, Value]]) -> Iterator[bytes]:
        read = [
            {**row, "ts_ns": int(row["ts_ns"]) + self._plan.shift_ns}
            for row in rows
            if row["ts_ns"] is not None
        ]
        # Without any, the clock of the trace still has to be named.
        for row in read or [{"ts_ns": self._plan.start_ns}]:
            clocks = [
                message(1, number(1, clock), number(2, int(value)))
                for clock, column in (
                    (_MONOTONIC, "ts_ns"),
                    (_REALTIME, "realtime_ns"),
                    (_BOOTTIME, "boottime_ns"),
                )
                if (value := row.get(column)) is not None
            ]
            yield message(
                _PACKET, message(6, *clocks, number(2, _MONOTONIC)), number(_SEQUENCE, _DESCRIPTORS)
            )

    def _tracks(self) -> Iterator[bytes]:
        yield _packet(60, number(1, _FACTS_UUID), text(2, "rlscope-trace"))
        parents = {process.process_id: process.pid for process in self._plan.processes}
        for process in self._plan.processes:
            yield self._process_track(process)
            yield _process_tree(process, parents.get(process.parent_process_id or 0))
            for thread in process.threads:
                yield self._thread_track(process, thread)

    def _process_track(self, process: Process) -> bytes:
        labels = [f"host {process.host}"] if process.host else []
        if process.real_pid not in {None, process.pid}:
            labels.append(f"pid {process.real_pid}")
        described = message(
            3,
            number(1, process.pid),
            text(2, process.command),
            text(6, process.shown_name),
            *(text(8, label) for label in labels),
        )
        uuid = self._process_uuids[process.process_id]
        return _packet(60, number(1, uuid), described, number(11, _EXPLICIT_ORDER))

    def _thread_track(self, process: Process, thread: Thread) -> bytes:
        described = message(
            4, number(1, process.pid), number(2, thread.tid), text(5, thread.shown_name)
        )
        return _packet(
            60,
            number(1, self._thread_uuids[thread.thread_id]),
            number(5, self._process_uuids[process.process_id]),
            described,
            number(11, _EXPLICIT_ORDER),
        )

    def _fact(self, name: str, values: Mapping[str, Value]) -> bytes:
        """Return a fact as an instant at the start of the trace, with its values as arguments."""
        annotations = [_annotation(label, value) for label, value in values.items()]
        return message(
            _PACKET,
            number(8, self._plan.start_ns),
            number(_SEQUENCE, _SLICES),
            number(_SEQUENCE_FLAGS, 2),
            message(
                11,
                *annotations,
                number(9, _INSTANT),
                number(11, _FACTS_UUID),
                text(22, "rlscope_trace"),
                text(23, name),
            ),
        )


def _packet(field: int, *parts: bytes) -> bytes:
    return message(_PACKET, number(_SEQUENCE, _DESCRIPTORS), message(field, *parts))


def _process_tree(process: Process, parent_pid: int | None) -> bytes:
    """Return who started the process: a TrackDescriptor has no place for a parent.

    Viewers skip an entry without a command.
    """
    entry = message(
        1,
        number(1, process.pid),
        number(2, parent_pid),
        text(3, process.command or process.label),
        number(9, None if process.command else 1),
    )
    return _packet(2, entry)


def _annotation(label: str, value: Value) -> bytes:
    if isinstance(value, str):
        return message(4, text(10, label), text(6, value))
    # Without a value it is there and null.
    return message(4, text(10, label), number(4, value))


def _gpu_fields(track: GpuTrack) -> bytes:
    """Return the fields of a GpuRenderStageEvent that all activities of a track share."""
    arguments = [
        message(3, text(2, label), number(3, value)) for label, value in track.constants().items()
    ]
    return b"".join(
        (number(11, track.device_id), number(5, track.process_id), message(21, *arguments))
    )
