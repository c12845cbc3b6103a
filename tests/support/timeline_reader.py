"""Reads timeline files back, with nothing of the code that writes them.

A slice is (place, start_ns, end_ns, name, category, arguments): `place` is the track it is on, the
pid and the tid it belongs to. Both readers check what viewers rely on: slices of one line nest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace

_BEGIN, _END, _INSTANT = 1, 2, 3
_CLEARED = 1
_MONOTONIC = 3


@dataclass(frozen=True, slots=True)
class ReadSlice:
    """A slice as a viewer shows it."""

    track: str
    pid: int | None
    tid: int | None
    start_ns: int
    end_ns: int
    name: str
    category: str
    arguments: tuple[tuple[str, Any], ...]


@dataclass(slots=True)
class ReadTimeline:
    """All of a file: its slices, and what stands beside them."""

    slices: list[ReadSlice] = field(default_factory=list)
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    facts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    clocks: list[dict[int, int]] = field(default_factory=list)
    # Pairs of start times: of the call, of what it caused.
    links: list[tuple[int, int]] = field(default_factory=list)


def signed(number: int) -> int:
    """Return a 64-bit number as the signed one it stands for."""
    return number - 2**64 if number >= 2**63 else number


class PerfettoReader:
    """Follows the packets in file order, as trace_processor's tokenizer does."""

    def __init__(self, data: bytes) -> None:
        self.read = ReadTimeline()
        self._interned: dict[tuple[str, int], Any] = {}
        self._tracks: dict[int, Any] = {}
        self._open: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        self._last_ns: dict[int, int] = {}
        self._queues: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._callers: dict[int, int] = {}
        self._caused: list[tuple[int, int]] = []
        self._is_open = False
        for packet in PerfettoTrace.FromString(data).packet:
            self._take(packet)
        assert not any(self._open.values()), "slices without an end"
        for spans in self._queues.values():
            assert_nested(spans)
        self.read.links = sorted(
            (self._callers[event], start) for event, start in self._caused if event in self._callers
        )

    def _take(self, packet: Any) -> None:  # noqa: ANN401 - a message of protobuf
        if packet.sequence_flags & _CLEARED:
            self._is_open = True
            assert packet.trace_packet_defaults.timestamp_clock_id == _MONOTONIC
        for field_, items in packet.interned_data.ListFields():
            for item in items:
                key = (field_.name, item.iid)
                assert key not in self._interned, "a number given twice"
                self._interned[key] = item
        if packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        elif packet.HasField("track_event"):
            assert self._is_open
            self._event(signed(packet.timestamp), packet.track_event)
        elif packet.HasField("gpu_render_stage_event"):
            self._activity(signed(packet.timestamp), packet.gpu_render_stage_event)
        elif packet.HasField("process_tree"):
            for process in packet.process_tree.processes:
                self.read.processes.setdefault(process.pid, {})["parent"] = process.ppid
        elif packet.HasField("clock_snapshot"):
            clocks = packet.clock_snapshot.clocks
            self.read.clocks.append({clock.clock_id: clock.timestamp for clock in clocks})
            assert packet.clock_snapshot.primary_trace_clock == _MONOTONIC

    def _describe(self, track: Any) -> None:  # noqa: ANN401
        assert track.uuid not in self._tracks, "a track described twice"
        assert not track.parent_uuid or track.parent_uuid in self._tracks
        self._tracks[track.uuid] = track
        if track.HasField("process"):
            described = self.read.processes.setdefault(track.process.pid, {})
            described["name"] = track.process.process_name
            described["command"] = list(track.process.cmdline)
        if track.HasField("thread"):
            self.read.threads[track.thread.tid] = track.thread.thread_name

    def _event(self, now_ns: int, event: Any) -> None:  # noqa: ANN401
        if event.type == _INSTANT:
            self.read.facts.append((event.name, self._annotations(event)))
            return
        # On one track nothing may go back in time: viewers sort, and equal times keep their order.
        assert now_ns >= self._last_ns.get(event.track_uuid, now_ns)
        self._last_ns[event.track_uuid] = now_ns
        stack = self._open[event.track_uuid]
        if event.type == _BEGIN:
            stack.append((now_ns, event))
            return
        assert event.type == _END
        start_ns, begun = stack.pop()
        self._finish(start_ns, now_ns, begun)

    def _finish(self, start_ns: int, end_ns: int, event: Any) -> None:  # noqa: ANN401
        track = self._tracks[event.track_uuid]
        pid, tid, owner = None, None, track
        while True:
            if owner.HasField("thread"):
                pid, tid = owner.thread.pid, owner.thread.tid
            elif owner.HasField("process") and pid is None:
                pid = owner.process.pid
            if not owner.parent_uuid:
                break
            owner = self._tracks[owner.parent_uuid]
        for event_id in correlated(event):
            self._callers[event_id] = start_ns
        self.read.slices.append(
            ReadSlice(
                track.name.partition(" (overlap")[0] or "calls", pid, tid, start_ns, end_ns,
                self._interned["event_names", event.name_iid].name,
                self._interned["event_categories", event.category_iids[0]].name,
                tuple(sorted(self._annotations(event).items())),
            )
        )  # fmt: skip

    def _annotations(self, event: Any) -> dict[str, Any]:  # noqa: ANN401
        values: dict[str, Any] = {}
        for item in event.debug_annotations:
            label = item.name or self._interned["debug_annotation_names", item.name_iid].name
            kind = item.WhichOneof("value")
            if kind == "string_value_iid":
                text = self._interned["debug_annotation_string_values", item.string_value_iid]
                values[label] = text.str.decode()
            else:
                values[label] = getattr(item, kind) if kind else None
        return values

    def _activity(self, start_ns: int, event: Any) -> None:  # noqa: ANN401
        stage = self._interned["gpu_specifications", event.stage_iid]
        queue = self._interned["gpu_specifications", event.hw_queue_iid]
        context = self._interned.get(("graphics_contexts", event.context))
        end_ns = signed(event.duration) + start_ns
        values = {item.name: int(item.value) for item in event.extra_data}
        values |= {item.name: item.int_value for item in event.launch.args}
        self._queues[event.hw_queue_iid].append((start_ns, end_ns))
        self._caused.append((event.event_id, start_ns))
        self.read.slices.append(
            ReadSlice(
                queue.name.partition(" (overlap")[0], context.pid if context else None, None,
                start_ns, end_ns, stage.name, stage.description, tuple(sorted(values.items())),
            )
        )  # fmt: skip


def correlated(event: Any) -> list[int]:  # noqa: ANN401
    """Return the ids in the field 3000, which the library does not know."""
    field_number, submission = 3000, 1
    data = event.SerializeToString()
    ids = []
    for number, value in wire_fields(data):
        if number == field_number:
            assert isinstance(value, bytes)
            ids += [part for inner, part in wire_fields(value) if inner == submission]
    return ids  # type: ignore[return-value]


def wire_fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """Return field numbers and values of a message, straight from protobuf's wire format."""
    fields: list[tuple[int, int | bytes]] = []
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            fields.append((number, varint()))
            continue
        assert kind == 2
        length = varint()
        fields.append((number, data[place : place + length]))
        place += length
    return fields


def read_perfetto(data: bytes) -> ReadTimeline:
    """Read a file of Perfetto's protobuf."""
    return PerfettoReader(data).read


def read_chrome(data: bytes) -> ReadTimeline:
    """Read a file of Chrome's JSON."""
    read = ReadTimeline()
    # Decimals: what is written must be exact, not only what a double makes of it.
    document = json.loads(data, parse_float=Decimal)
    lines: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    names: dict[tuple[int, int], str] = {}
    flows: dict[str, dict[Any, list[int]]] = {"s": {}, "f": {}}
    for event in document["traceEvents"]:
        place = (event["pid"], event["tid"])
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                assert place not in names, "a line named twice"
                names[place] = event["args"]["name"]
            if event["name"] == "process_name":
                read.processes.setdefault(place[0], {})["name"] = event["args"]["name"]
            if event["name"] == "process_labels":
                read.processes.setdefault(place[0], {})["labels"] = event["args"]["labels"]
            continue
        start_ns = nanoseconds(event["ts"])
        if event["ph"] in flows:
            flows[event["ph"]].setdefault(event["id"], []).append(start_ns)
            continue
        assert event["ph"] == "X"
        end_ns = start_ns + nanoseconds(event["dur"])
        lines[place].append((start_ns, end_ns))
        arguments = tuple(sorted(event["args"].items()))
        track = names.get(place, "").partition(" (overlap")[0]
        read.slices.append(
            ReadSlice(track, *place, start_ns, end_ns, event["name"], event["cat"], arguments)
        )
    for spans in lines.values():
        assert_nested(spans)
    read.threads = {tid: name for (_, tid), name in names.items()}
    read.facts = list(document["otherData"]["rlscope_trace"].items())
    read.links = sorted(
        (call, start)
        for key, calls in flows["s"].items()
        for call in calls
        for start in flows["f"].get(key, [])
    )
    return read


def nanoseconds(microseconds: Decimal | int) -> int:
    """Return a time of the file; it has at most three decimals."""
    value = Decimal(microseconds).scaleb(3)
    assert value == int(value)
    return int(value)


def assert_nested(spans: list[tuple[int, int]]) -> None:
    """Check that of any two spans one contains the other, or they do not overlap."""
    ends: list[int] = []
    for start_ns, end_ns in sorted(spans, key=lambda span: (span[0], -span[1])):
        while ends and ends[-1] <= start_ns:
            ends.pop()
        assert not ends or end_ns <= ends[-1], f"{start_ns}..{end_ns} overlaps {ends[-1]}"
        ends.append(end_ns)
