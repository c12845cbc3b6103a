"""From the GPU records of the shims to the tables of calls, activities and what goes with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_trace._ingest import ShimGpuReader, shim_gpu_names
from rlscope_trace.ingest.store.gpu_facts import GpuFacts
from rlscope_trace.ingest.store.gpu_inserts import Staging, insert_memory, insert_overheads
from rlscope_trace.ingest.store.gpu_losses import GpuCuts, gpu_stats
from rlscope_trace.ingest.store.gpu_names import GpuNames
from rlscope_trace.ingest.store.strings import Strings
from rlscope_trace.ingest.store.thread_lives import NOBODY
from rlscope_trace.ingest.writer.database_file import BATCH_ROWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlscope_trace._ingest import ShimScan
    from rlscope_trace.ingest.store.thread_lives import ThreadLives
    from rlscope_trace.ingest.writer.coverages import KindCoverage
    from rlscope_trace.ingest.writer.trace_stats import TraceStat
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

    Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class GpuRecording:
    """What was written of the GPU."""

    losses: list[TraceStat]
    verdicts: list[KindCoverage]
    """What was measured of which process; of no others anything is known."""


class GpuWriter:
    """Writes what the shims reported of GPUs into a database with its threads and processes."""

    def __init__(
        self,
        trace: TraceWriter,
        scan: ShimScan,
        lives: ThreadLives,
        *,
        host: str | None,
        end_ns: int,
    ) -> None:
        """`end_ns`: of the trace, 0 where the recorder was killed."""
        self._trace = trace
        self._scan = scan
        self._lives = lives
        self._pids = np.array(scan.source_pids(), dtype=np.int64)
        self._reader = ShimGpuReader(scan, start_ns=lives.start_ns)
        self._strings = Strings(trace)
        self._names = GpuNames(shim_gpu_names(scan), self._strings)
        self._facts = GpuFacts(trace, scan, lives, host)
        self._cuts = GpuCuts(end_ns)

    def write(self) -> GpuRecording:
        """Fill the tables."""
        calls = Staging(self._trace, "cuda_call_coded")
        activities = Staging(self._trace, "gpu_activity_coded")
        total = max(self._scan.records, 1)
        done = 0
        while (part := self._reader.next(BATCH_ROWS)) is not None:
            calls.add(self._calls(part[0]))
            activities.add(self._activities(part[1]))
            insert_overheads(self._trace, self._overheads(part[2]))
            insert_memory(self._trace, self._memories(part[3]))
            done += sum(len(columns["source"]) for columns in part)
            self._trace.progress("gpu", min(done, total - 1), total)
        calls.store()
        activities.store()
        self._strings.insert()
        self._facts.write()
        self._trace.progress("gpu", total, total)
        return GpuRecording(
            losses=gpu_stats(self._scan, self._reader, self._facts, self._cuts),
            verdicts=self._facts.verdicts(self._reader),
        )

    def _calls(self, calls: Columns) -> Columns:
        process_id = self._processes(calls)
        thread_id = self._threads(calls)
        name_id, kind = self._names.calls(calls)
        rows = {
            "process_id": process_id,
            "thread_id": thread_id,
            "start_ns": calls["start_ns"],
            "end_ns": calls["end_ns"],
            "kind": kind,
            "name_id": name_id,
            "correlation_id": calls["correlation"],
        }
        left = self._cuts.add(thread_id, calls["start_ns"], self._lives)
        self._cuts.calls_of_no_thread += left
        return _where(rows, thread_id > 0)

    def _activities(self, activities: Columns) -> Columns:
        process_id = self._processes(activities)
        rows = {
            "process_id": process_id,
            "device_id": self._facts.devices.numbers(activities["source"], activities["device"]),
            "context_id": activities["context"],
            "stream_id": activities["stream"],
            "start_ns": activities["start_ns"],
            "end_ns": activities["end_ns"],
            "kind": activities["work"],
            "name_id": self._names.activities(activities),
            "correlation_id": activities["correlation"],
            "graph_id": activities["graph"],
            "bytes": activities["bytes"],
            "peer_device_id": self._facts.devices.numbers(
                activities["source"], activities["peer_device"]
            ),
        }
        left = self._cuts.add(process_id, activities["start_ns"], self._lives)
        self._cuts.of_no_process += left
        return _where(rows, process_id > 0)

    def _overheads(self, overheads: Columns) -> Columns:
        process_id = self._processes(overheads)
        left = self._cuts.add(process_id, overheads["start_ns"], self._lives)
        self._cuts.of_no_process += left
        rows = {
            "process_id": process_id,
            "thread_id": np.maximum(self._threads(overheads), 0),
            "start_ns": overheads["start_ns"],
            "end_ns": overheads["end_ns"],
            "what": overheads["what"],
        }
        return _where(rows, process_id > 0)

    def _memories(self, memories: Columns) -> Columns:
        at_ns = memories["ts_ns"]
        process_id = self._processes({**memories, "start_ns": at_ns, "end_ns": at_ns + 1})
        self._cuts.of_no_process += self._cuts.add(process_id, at_ns, self._lives)
        rows = {name: column for name, column in memories.items() if name != "source"}
        rows["device"] = self._facts.devices.numbers(memories["source"], memories["device"])
        return _where({**rows, "process_id": process_id}, process_id > 0)

    def _processes(self, columns: Columns) -> NDArray[np.int32]:
        owners = np.full(len(columns["source"]), NOBODY, dtype=np.int32)
        for source in np.unique(columns["source"]).tolist():
            here = columns["source"] == source
            owners[here] = self._lives.processes_at(
                int(self._pids[source]), columns["start_ns"][here], columns["end_ns"][here]
            )
        return owners

    def _threads(self, columns: Columns) -> NDArray[np.int32]:
        owners = np.full(len(columns["source"]), NOBODY, dtype=np.int32)
        keys = columns["source"].astype(np.int64) << 32 | columns["tid"]
        order = np.argsort(keys, kind="stable")
        used, first = np.unique(keys[order], return_index=True)
        places = np.split(order, first[1:])
        for key, here in zip(used.tolist(), places, strict=False):
            owners[here] = self._lives.threads_at(
                int(self._pids[key >> 32]),
                key & 0xFFFFFFFF,
                columns["start_ns"][here],
                columns["end_ns"][here],
            )
        return owners


def _where(rows: Columns, chosen: NDArray[np.bool_]) -> Columns:
    return {name: column[chosen] for name, column in rows.items()}
