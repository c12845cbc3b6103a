"""What an NVTX range and an automatic phase cost the program that marks them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_trace import _capture, _ingest
from rlscope_trace.record import shims
from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.estimate import added, calm
from rlscope_trace.record.calibrate.results import Values, failed, missing
from rlscope_trace.spool.directory import SHIM_FILE

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rlscope_trace.spool.costs import Cost

_COUNT = 500
_TRIMMED = 0.05
# What marks the ranges -> the event.
_CLIENTS = {"c": "range", "python": "range_python"}
_AUTO = "range_auto"
_READ_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class _Visit:
    """One measurement, whose ranges are read at the end."""

    event: str
    start_ns: int
    end_ns: int
    added_ns: float
    """Per turn of a loop, of `turns` altogether."""
    turns: int
    between_ns: float
    """What lies between push and pop where nobody listens."""


class RangeLoops:
    """Ranges that are recorded, and the same where nobody listens."""

    events = (*_CLIENTS.values(), _AUTO)

    def __init__(self, scratch: Path, batches: int) -> None:
        self._values = Values()
        self._batches = batches
        self._visits: list[_Visit] = []
        self._refused: dict[str, str] = {}
        self._directory = scratch / "ranges"
        self._directory.mkdir()
        if not shims.LIBRARY.exists():
            raise CalibrationError(f"this installation lacks {shims.LIBRARY.name}")
        session = shims.new_session()
        self._shims = _capture.ShimCollector(str(self._directory), session, shims.own_processes())
        self._shims.start()
        self._children: list[Child] = []
        try:
            self._open(session)
        except BaseException:
            self.close()
            raise

    def _open(self, session: str) -> None:
        environment = {
            "NVTX_INJECTION64_PATH": str(shims.LIBRARY),
            **shims.late_environment(session, ""),
        }
        cpu = measured_cpu()
        # The last one for the phases: they are a client of their own.
        for child_environment in (environment, {}, environment):
            self._children.append(Child(cpu, environment=child_environment))
        recorded = self._children[0]
        if not recorded.ask("heard")["heard"]:
            raise CalibrationError("the shim does not take the ranges of a process of ours")
        for client, event in _CLIENTS.items():
            self._try(event, lambda client=client: self._ask_both(client, 1, 1))
        self._try(_AUTO, lambda: self._ask_hooks(1, 1))
        self._fill_rings()

    def _fill_rings(self) -> None:
        """Write as much as a ring holds: its memory comes page by page, and only the first time."""
        batches = -(-_ingest.SHIM_RING_RECORDS // _COUNT)
        with suppress(CalibrationError):
            for child in (self._children[0], self._children[2]):
                child.ask("ranges", client="c", count=_COUNT, batches=batches)

    def _try(self, event: str, use: Any) -> None:  # noqa: ANN401 - what it returns does not matter
        try:
            use()
        except CalibrationError as error:
            self._refused[event] = str(error)

    def visit(self) -> None:
        """Take one measurement of everything."""
        for client, event in _CLIENTS.items():
            if event in self._refused:
                continue
            recorded, alone = self._ask_both(client, _COUNT, self._batches)
            plain_ns = calm(alone["ns"])
            # Half of what a push and a pop take lies between the two.
            self._note(event, recorded, added(recorded["ns"], alone["ns"]), plain_ns / 2)
        if _AUTO not in self._refused:
            reported = self._ask_hooks(_COUNT, self._batches)
            self._note(
                _AUTO, reported, added(reported["on"], reported["off"]), calm(reported["off"])
            )

    def _note(
        self, event: str, reported: dict[str, Any], added_ns: float, between_ns: float
    ) -> None:
        turns = _COUNT * self._batches
        self._visits.append(
            _Visit(event, reported["start_ns"], reported["end_ns"], added_ns, turns, between_ns)
        )

    def _ask_both(self, client: str, count: int, batches: int) -> tuple[Any, Any]:
        reported = [
            child.ask("ranges", client=client, count=count, batches=batches)
            for child in self._children[:2]
        ]
        return reported[0], reported[1]

    def _ask_hooks(self, count: int, pairs: int) -> dict[str, Any]:
        folder = str(shims.PYTHON_FOLDER)
        return self._children[2].ask("hooks", folder=folder, count=count, pairs=pairs)

    def finish(self) -> None:
        """Read the ranges: how many there were, and the part of their cost that lies inside."""
        self._shims.stop()
        ranges = _read(self._directory / SHIM_FILE)
        for visit in self._visits:
            inside = (ranges["start_ns"] >= visit.start_ns) & (ranges["end_ns"] <= visit.end_ns)
            own = ranges["end_ns"][inside] - ranges["start_ns"][inside]
            # A phase that is entered may end another: several ranges in one turn.
            per_turn = round(len(own) / visit.turns)
            if per_turn < 1:
                self._refused[visit.event] = f"{len(own)} of {visit.turns} ranges were recorded"
                continue
            self._values.add_split(
                visit.event, "", visit.added_ns / per_turn,
                _trimmed_mean(own) - visit.between_ns / per_turn,
            )  # fmt: skip

    def costs(self) -> list[Cost]:
        """Return the rows of what was measured."""
        return self._values.costs() + [
            missing(event, failed(reason)) for event, reason in self._refused.items()
        ]

    @property
    def lost(self) -> int:
        """How many ranges found no room."""
        return self._shims.lost

    def close(self) -> None:
        """End the processes."""
        self._shims.stop()
        for child in self._children:
            child.close()


def _read(path: Path) -> dict[str, NDArray[np.int64]]:
    """Return start_ns and end_ns of all ranges that ended."""
    import numpy as np

    scan = _ingest.ShimScan(str(path))
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for incarnation in range(len(scan.incarnations())):
        reader = _ingest.ShimRangeReader(scan, incarnation)
        while (part := reader.next(_READ_ROWS)) is not None:
            ended = part["end_ns"] > 0
            starts.append(part["start_ns"][ended].astype(np.int64))
            ends.append(part["end_ns"][ended].astype(np.int64))
    return {"start_ns": np.concatenate(starts), "end_ns": np.concatenate(ends)}


def _trimmed_mean(durations: NDArray[np.int64]) -> float:
    import numpy as np

    cut = int(len(durations) * _TRIMMED)
    return float(np.sort(durations)[cut : len(durations) - cut].mean())
