"""A trace as Chrome's JSON, in the shape that the PyTorch profiler (Kineto) gives it."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from rlscope_analysis._perfetto import Writer
from rlscope_analysis.export import sources
from rlscope_analysis.export.facts import read_facts
from rlscope_analysis.export.identity import FIRST_LANE_TID
from rlscope_analysis.export.kineto_wording import KinetoWording
from rlscope_analysis.export.stream import add_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.export.plan import GpuTrack, Plan
    from rlscope_analysis.export.sources import Kind
from rlscope_analysis.export.stream import Pass

# Where a GPU cannot have the number of the device as its pid. Those whose device is not known lie
# beyond what any device or kernel counts to.
_FIRST_GPU_PID = 1_900_000_000
_FIRST_UNKNOWN_GPU_PID = 4_000_000_000
_GPU_SORT_INDEX = 1_000_000


class ChromeFormat:
    """Writes one trace; `passes` are to be run in order, after `head`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # Each pass over threads or processes has its own line of every thread or process.
        self._next_tid = FIRST_LANE_TID
        lines = len(plan.thread_passes()) * len(plan.threads())
        lines += len(plan.process_passes()) * len(plan.processes) + len(plan.gpu_tracks)
        self.writer = Writer.chrome(first_tid=FIRST_LANE_TID + lines)
        self._pids = {process.process_id: process.pid for process in plan.processes}
        self._gpu_places = self._place_gpus()
        self._wakers = {
            thread.thread_id: f"{thread.label} (thread_id {thread.thread_id})"
            for thread in plan.threads()
        }

    def head(self) -> Iterator[bytes]:
        """Yield everything up to the slices."""
        facts = read_facts(self._plan)
        before: dict[str, Any] = {
            "schemaVersion": 1,
            "displayTimeUnit": "ns",
            **self._epoch(facts["clock"]),
            "deviceProperties": [_device(row) for row in facts["gpu_device"]],
            "otherData": {"rlscope_trace": facts},
        }
        # The text of the object stays open: its last member is the array of events.
        yield (json.dumps(before, indent=1)[:-2] + ',\n "traceEvents": [\n').encode()
        for place, process in enumerate(self._plan.processes):
            if process.shown_name is not None:
                yield _metadata("process_name", process.pid, 0, name=process.shown_name)
            if process.command:
                yield _metadata("process_labels", process.pid, 0, labels=process.command)
            yield _metadata("process_sort_index", process.pid, 0, sort_index=place)
            for line, thread in enumerate(process.threads):
                if thread.shown_name is not None:
                    yield _metadata("thread_name", process.pid, thread.tid, name=thread.shown_name)
                yield _metadata("thread_sort_index", process.pid, thread.tid, sort_index=line)
        yield from self._gpu_names()

    def _epoch(self, clocks: list[dict[str, Any]]) -> dict[str, int]:
        """Return which wall-clock time is 0 in the file, where that is known."""
        offsets = [
            row["realtime_ns"] - row["ts_ns"] - self._plan.shift_ns
            for row in clocks
            if row["realtime_ns"] is not None and row["ts_ns"] is not None
        ]
        return {"baseTimeNanoseconds": offsets[0]} if offsets else {}

    def tail(self) -> bytes:
        """Return the end of the text."""
        # The array ends with an event, after which no comma may stand.
        return _metadata("rlscope_trace_end", 0, 0).rstrip(b",\n") + b"\n]}\n"

    def passes(self) -> Iterator[Pass]:
        """Yield the passes: functions that return what has to stand before their slices."""
        for name, kinds in self._plan.process_passes():
            yield partial(self._begin_process_pass, name, kinds)
        for name, kinds in self._plan.thread_passes():
            yield partial(self._begin_thread_pass, name, kinds)
        if self._plan.gpu_tracks:
            yield self._begin_gpu_pass

    def _begin_process_pass(self, name: str, kinds: tuple[Kind, ...]) -> bytes:
        self.writer.begin_pass()
        said = []
        for process in self._plan.processes:
            tid = self._new_tid()
            said.append(_metadata("thread_name", process.pid, tid, name=name))
            said.append(_metadata("thread_sort_index", process.pid, tid, sort_index=-1))
            self.writer.add_track(
                (process.process_id,),
                name,
                group=process.process_id,
                pid=process.pid,
                tid=tid,
                rank=-1,
            )
        self._add_sources(kinds)
        return b"".join(said)

    def _begin_thread_pass(self, name: str, kinds: tuple[Kind, ...]) -> bytes:
        """Prepare a pass; without a name it is on the thread itself, where Kineto has its calls."""
        self.writer.begin_pass()
        said = []
        for process in self._plan.processes:
            for line, thread in enumerate(process.threads):
                label = f"{thread.label} {name}".rstrip()
                tid = self._new_tid() if name else thread.tid
                if name:
                    said.append(_metadata("thread_name", process.pid, tid, name=label))
                    said.append(_metadata("thread_sort_index", process.pid, tid, sort_index=line))
                self.writer.add_track(
                    (thread.thread_id,),
                    label,
                    group=thread.thread_id,
                    scope=process.process_id,
                    pid=process.pid,
                    tid=tid,
                    rank=line,
                )
        self._add_sources(kinds)
        return b"".join(said)

    def _begin_gpu_pass(self) -> bytes:
        self.writer.begin_pass()
        for track, (pid, tid) in self._gpu_places.items():
            self.writer.add_track(
                track.key,
                track.label,
                group=track.process_id or 0,
                scope=track.process_id or 0,
                pid=pid,
                tid=tid,
                constant=_gpu_arguments(track),
            )
        self._add_sources((sources.GPU_ACTIVITY,))
        return b""

    def _add_sources(self, kinds: tuple[Kind, ...]) -> None:
        for kind in kinds:
            add_source(self.writer, self._plan, kind, KinetoWording(), self._wakers)

    def _new_tid(self) -> int:
        self._next_tid += 1
        return self._next_tid - 1

    def _place_gpus(self) -> dict[GpuTrack, tuple[int, int]]:
        """Give each device a pid and each stream a tid: Kineto takes their own numbers.

        That is so where one process has all of the GPU and no pid is in the way.
        """
        tracks = self._plan.gpu_tracks
        is_one = len({track.process_id for track in tracks}) == 1
        pids: dict[tuple[int | None, int | None], int] = {}
        taken = set(self._pids.values())
        tids: dict[int, set[int]] = defaultdict(set)
        places: dict[GpuTrack, tuple[int, int]] = {}
        for track in tracks:
            owner = (track.process_id, track.device_id)
            if owner not in pids:
                device = track.device_id
                first = _FIRST_UNKNOWN_GPU_PID if device is None else _FIRST_GPU_PID
                fits = is_one and device is not None and device >= 0 and device not in taken
                pids[owner] = device if fits and device is not None else first + len(pids)
                taken.add(pids[owner])
            pid, tid = pids[owner], track.stream_id
            if tid is None or not 0 <= tid < FIRST_LANE_TID or tid in tids[pid]:
                tid = self._new_tid()
            tids[pid].add(tid)
            places[track] = pid, tid
        return places

    def _gpu_names(self) -> Iterator[bytes]:
        names = {process.process_id: process.label for process in self._plan.processes}
        named = set()
        for track, (pid, tid) in self._gpu_places.items():
            device = "" if track.device_id is None else f" {track.device_id}"
            if pid not in named:
                named.add(pid)
                name = names.get(track.process_id or 0, "process not known")
                yield _metadata("process_name", pid, 0, name=name)
                yield _metadata("process_labels", pid, 0, labels=f"GPU{device}")
                yield _metadata(
                    "process_sort_index", pid, 0, sort_index=_GPU_SORT_INDEX + len(named)
                )
            yield _metadata("thread_name", pid, tid, name=track.label)


def _metadata(kind: str, pid: int, tid: int, /, **arguments: str | int) -> bytes:
    event = {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": arguments}
    return (json.dumps(event) + ",\n").encode()


def _gpu_arguments(track: GpuTrack) -> bytes:
    """Return what all activities of a track share; -1: not known, as CUPTI says it."""
    said = {"device": track.device_id, "context": track.context_id, "stream": track.stream_id}
    return "".join(
        f'"{label}":{-1 if value is None else value},' for label, value in said.items()
    ).encode()


def _device(row: dict[str, Any]) -> dict[str, Any]:
    """Return a GPU as Kineto describes it."""
    known = {
        "id": row["device_id"],
        "name": row["name"],
        "totalGlobalMem": row["memory_bytes"],
        "numSms": row["multiprocessors"],
    }
    major, _, minor = (row["compute_capability"] or "").partition(".")
    if major.isdigit() and minor.isdigit():
        known |= {"computeMajor": int(major), "computeMinor": int(minor)}
    return {label: value for label, value in known.items() if value is not None}
