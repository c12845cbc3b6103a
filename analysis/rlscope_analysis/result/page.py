"""What a page to look at shows: values and notes, in the order of the page; no words, no layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.table import Table

Record = dict[str, Any]
"""A row of a view, by the names of its columns."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the first screen."""

    code: str
    value: float | None
    """None: not measured."""
    beside: dict[str, Any] = field(default_factory=dict)
    """What else is said of it."""


@dataclass(frozen=True, slots=True)
class IterationBar:
    """An iteration, or the mean of several that follow each other."""

    first_id: int
    last_id: int
    start_ns: int
    """Since the first iteration began."""
    end_ns: int
    duration_ns: float
    """The mean of the iterations."""
    parts_ns: tuple[float, ...]
    """By the phases of IterationBars: they add up to duration_ns."""


@dataclass(frozen=True, slots=True)
class IterationBars:
    """Every iteration, by what the leading thread did in it."""

    count: int
    per_bar: int
    """How many iterations a bar stands for; the last one may stand for fewer."""
    phases: tuple[str, ...]
    bars: tuple[IterationBar, ...]
    marks: tuple[tuple[str, Record], ...]
    """Which iterations have a close-up: typical, slowest."""


@dataclass(frozen=True, slots=True)
class Row:
    """Slices that follow each other, by what they are."""

    kind: str
    """operation, state or gpu."""
    start_ns: npt.NDArray[np.int64]
    """Since the iteration began."""
    end_ns: npt.NDArray[np.int64]
    code: npt.NDArray[np.int64]
    """A place in `words` of the close-up."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a slice is: an operation, a state of a thread or work of a GPU."""

    kind: str
    name: str | None
    layer: str | None = None
    wait: str | None = None
    several: bool = False
    """Short slices that follow each other, drawn as the one that has most of the time."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A thread, or a stream of a GPU."""

    who: Note
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class CloseUp:
    """One iteration on all threads and GPUs, with its critical path."""

    which: str
    """typical, slowest or whole."""
    iteration: Record
    lanes: tuple[Lane, ...]
    lanes_left_out: int
    """Threads that are not drawn: those of the path come first."""
    words: tuple[Word, ...]
    path: tuple[npt.NDArray[np.int64], ...]
    """start_ns, end_ns, lane (-1: not drawn), cause (a place in `causes`).

    As many places beyond them: short pieces, drawn as the one that has most of the time.
    """
    causes: tuple[str, ...]
    launches: tuple[npt.NDArray[np.int64], ...]
    """lane and time of a call, lane and time of the start of what it launched."""
    least_ns: int
    """Shorter slices are drawn together; 0: none is."""
    path_least_ns: int
    """Of the path, likewise."""


@dataclass(frozen=True, slots=True)
class Queue:
    """How long the threads of some processes waited for a CPU."""

    who: str
    """lead, workers or others."""
    role: str
    processes: int
    waits: int
    time_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    bins: tuple[tuple[int, int, int], ...]
    """From 2 ** (place / 2) ns on: place, how many waits, how long they took together."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A function and what it called, by samples."""

    name: str | None
    """None: no Python function was found."""
    samples: int
    children: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Functions:
    """The samples of the leading thread in the iterations, by phase and function."""

    samples: int
    phases: tuple[Frame, ...]
    functions: tuple[Record, ...]
    """The innermost ones: phase, function, samples; those with most."""
    left_out: int
    """Samples in functions that are not listed."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What GPUs did."""

    time: tuple[Record, ...]
    """Rows of gpu_time, of the trace and of each device."""
    kernels: tuple[Record, ...]
    idle: tuple[Record, ...]
    """process, bucket, time_ns: gpu_idle."""
    devices: dict[int, str | None]


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of all numbers, and the command that prints it."""

    command: str
    """Options of rlscope-trace, after its name and before that of the trace."""
    options: str
    table: Table | None
    reason: str | None = None
    """Why there is none."""
    of: Mapping[str, Any] = field(default_factory=dict)
    """What it was worked out from: facts of the answer."""
    asked: tuple[str, ...] = ()
    """More options: of which part of the trace, and of what as an iteration."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a page shows of a trace."""

    trace: str
    """The name of its file."""
    facts: Record
    """program, host, kernel, cpus, cpu_count, started_ns (of the wall clock), duration_ns,
    start_up_ns, left_out_ns, processes, threads, is_complete, window."""
    asked: tuple[str, ...]
    """The part of the trace, as options."""
    verdict: Note
    verdict_more: tuple[Note, ...]
    pace: Record | None
    figures: tuple[Figure, ...]
    phases: tuple[Record, ...]
    processes: tuple[Record, ...]
    findings: tuple[Record, ...]
    what_if: PageTable | None
    iterations: IterationBars | None
    close_ups: tuple[CloseUp, ...]
    queues: tuple[Queue, ...]
    functions: Functions | None
    gpu: Gpu | None
    tables: tuple[PageTable, ...]
    losses: tuple[Record, ...]
    """kind, count, source (a note), remedy (a note)."""
    overhead: Record
    """cpu_ns and overhead_ns: of the recording."""
    not_measured: tuple[Note, ...]
    private: tuple[str, ...]
    """Words of the trace that tell who ran what where: hosts, users, command lines, titles."""
