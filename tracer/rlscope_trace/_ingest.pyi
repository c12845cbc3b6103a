"""The native module that reads: spools, the files of other profilers, and how their ranges nest.

Times are nanoseconds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import int32, int64
from numpy.typing import NDArray

# --- ranges: nesting/bindings.cpp; files of other profilers: import/bindings.cpp ---

def nest(
    thread_id: NDArray[int32], start_ns: NDArray[int64], end_ns: NDArray[int64]
) -> tuple[NDArray[int32], NDArray[int64], int, int]:
    """Find which range lies in which, of rows in the order of (thread, start, -end).

    Returns per row how many ranges are open around it and the row of the one opened last that is
    still open (-1: none); then how many ranges end after one that is around them, and when the
    first of those begins. Raises ValueError if the rows are not in order.
    """

def intern_paths(
    parent: NDArray[int64], key: NDArray[int64], max_paths: int = ..., max_depth: int = ...
) -> tuple[NDArray[int32], NDArray[int32], NDArray[int64], NDArray[int32]]:
    """Give the distinct stacks of ranges numbers, from 1; parents come before their children.

    parent: rows as `nest` returns them; key: what tells ranges with the same parent apart.
    Ranges of further paths than max_paths, in max_depth others, or in such ranges get path 0.
    Returns the path of each row; then per path its parent path (0: none), key and depth.
    """

MISSING: int
"""What stands for NULL in the columns of read_kineto."""

def read_kineto(path: str, progress: Callable[[int, int], object]) -> dict[str, Any]:
    """Read a file of the PyTorch profiler, plain or gzipped, up to its end or its first damage.

    progress(position, size): called every quarter of a mebibyte, in bytes of the file.
    Returns what importers.kineto_file.KinetoFile holds; KeyboardInterrupt at Ctrl-C, OSError if
    the file cannot be read.
    """

def parse_decimal(text: str, shift: int) -> tuple[int, bool] | None:
    """Read a decimal number, shifted by so many places: exact, half away from zero.

    Returns the integer, and whether digits behind its last one were not zero; None if the text is
    no number or does not fit into 64 bits.
    """

# --- spools: spool/bindings.cpp ---

WIRE_VERSION: int

class SpoolScan:
    """First pass over records.bin. Arrays are views of its memory."""

    def __init__(
        self, records_path: str, *, end_ns: int, latest_ns: int = 0, from_ns: int = 0
    ) -> None: ...
    def advance(self, bytes: int) -> bool: ...
    @property
    def position(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def malformed_count(self) -> int: ...
    @property
    def unknown_kind_count(self) -> int: ...
    def records(self) -> dict[int, int]: ...
    def execs(self) -> list[tuple[int, int, int, int, int, int, bytes, bytes]]: ...
    def threads(self) -> NDArray[np.void]: ...
    def clocks(self) -> NDArray[np.void]: ...
    @property
    def unread_titles(self) -> int: ...
    def title_texts(self) -> list[bytes]: ...
    def titles(self) -> NDArray[np.void]: ...

class StateRows:
    """Second pass: the rows of thread_state_coded. A batch is overwritten by the next one."""

    def __init__(
        self,
        scan: SpoolScan,
        *,
        slots: Sequence[int] | NDArray[np.uint32],
        scratch_directory: str,
        batch_rows: int,
        bucket_bytes: int = ...,
    ) -> None: ...
    def set_left_out(self, thread_ids: list[int]) -> None: ...
    def set_gil(self, position: int, ranges: list[tuple[int, int, int]]) -> None:
        """Tell where the GIL of slots[position] is: (from_ns, first address, end), by time."""
    def prepare(self, bytes: int) -> bool: ...
    def next_batch(self) -> dict[str, NDArray[Any]] | None: ...
    @property
    def row_count(self) -> int: ...
    def totals(self) -> dict[str, tuple[int, int | None, int | None, int | None]]: ...
    def findings(self) -> dict[str, tuple[int, int]]: ...
    def outcomes(self) -> NDArray[np.void]: ...

class EventRows:
    """Third pass: what is neither thread nor state, in the order of the spool."""

    def __init__(self, scan: SpoolScan) -> None: ...
    def next_batch(self, rows: int) -> dict[str, Any] | None:
        """Return columns by name under each kind of event.

        The kinds: calls, releases, samples, other_runs, quotas, messages. Under
        stacks (id, frames), under programs (id, pid, name).
        """

    @property
    def position(self) -> int: ...
    @property
    def malformed_count(self) -> int: ...
    @property
    def unknown_thread_count(self) -> int: ...

# --- what shims recorded: shim/bindings.cpp, shim/gpu_bindings.cpp ---

SHIM_MIB_PER_S: int
"""What is kept of one process, as long as it likes; more for a while."""
SHIM_RING_RECORDS: int
"""That the ring of one thread has room for."""

class ShimScan:
    """What shim.bin tells. Structured arrays; all times in ns."""

    def __init__(self, path: str) -> None: ...
    @property
    def records(self) -> int: ...
    def source_pids(self) -> list[int]: ...
    def incarnations(self) -> NDArray[np.void]:
        """Return first_ns, last_ns, ranges, pid, tid of each thread while it had a ring."""

    def names(self) -> list[tuple[str | None, str | None, str | None, int]]:
        """Return name, domain, category ("": none, None: lost) and color of each key."""

    def async_ranges(self) -> NDArray[np.void]:
        """Return start_ns, end_ns (0: never ended), pid, key of start/end ranges."""

    def marks(self) -> NDArray[np.void]:
        """Return ts_ns, incarnation, key."""

    def losses(self) -> dict[str, int]: ...

class ShimRangeReader:
    """The push/pop ranges of the incarnations of a thread, as they ended, part by part."""

    def __init__(self, scan: ShimScan, incarnation: int | list[int]) -> None: ...
    def next(self, count: int) -> dict[str, NDArray[Any]] | None:
        """Return at least `count` ranges, so that what follows began later; None at the end.

        Columns: start_ns (0: before the recording), end_ns (0: not known), key, payload,
        payload_type, is_open. gap_start_ns, gap_end_ns: of equal length, which is not theirs.
        """

class ShimGpuReader:
    """Calls, activities, overheads and memory of GPUs, part by part; times in ns."""

    def __init__(self, scan: ShimScan, start_ns: int = 0) -> None:
        """Read the records again; what began before `start_ns` is in the parts, but in no count."""

    def next(
        self, count: int
    ) -> (
        tuple[
            dict[str, NDArray[Any]],
            dict[str, NDArray[Any]],
            dict[str, NDArray[Any]],
            dict[str, NDArray[Any]],
        ]
        | None
    ):
        """Return the columns of at least `count` records; None at the end.

        source is the place of the process in source_pids(), name that in shim_gpu_names() (-1:
        none), tid 0 where it is not known. Calls: source, tid, start_ns, end_ns, name, api,
        function, correlation, result. Activities: source, device, context, stream, start_ns,
        end_ns, work, detail, name, correlation, graph, bytes. Overheads: source, tid, start_ns,
        end_ns, what. Memory: source, device, context, ts_ns, is_release, memory_kind, bytes,
        address, correlation.
        """

    def left_out(self) -> dict[str, int]:
        """Return how many records no part holds: untimed, backwards, unconverted."""

    def unmatched(self) -> dict[int, tuple[int, int]]:
        """Return, by source, activities without a call: how many, and when the first began."""

    def unmatched_calls(self) -> dict[int, tuple[int, int]]:
        """Return, by source, calls without the work that they asked a GPU for, as unmatched().

        Only calls that succeeded, and work of kinds that were recorded of the process. Launches
        that a graph captured are among them.
        """

    def converted(self) -> dict[int, int]:
        """Return, by source, how many records were on another clock than the trace."""

def shim_gpu_names(scan: ShimScan) -> list[str | None]:
    """Return the texts that GPU records name; None: it was lost. C++ names are demangled."""

def shim_gpu_cut_names(scan: ShimScan) -> int: ...
def shim_gpu_statuses(scan: ShimScan) -> list[dict[str, Any]]:
    """Return the fields of rls_shim_gpu_status and source, in the order they were reported."""

def shim_gpu_devices(scan: ShimScan) -> list[dict[str, Any]]: ...
def shim_gpu_streams(
    scan: ShimScan,
) -> list[tuple[int, int, int | None, int | None, str | None]]:
    """Return source, device, context (None: of a GPU), stream (None: of a context) and name."""

def shim_gpu_lost(scan: ShimScan) -> list[tuple[int, int, int, int, int]]:
    """Return source, what, CUPTI's kind, count and first_ns (0: not known)."""

def shim_gpu_clocks(scan: ShimScan) -> dict[int, tuple[bool, int, bool]]:
    """Return, by source, whether its clock is known, its error in ns, and whether it was set."""

def shim_gpu_repeated(scan: ShimScan) -> int: ...
def shim_gpu_has_calls(scan: ShimScan, source: int) -> bool: ...

class PhaseNames:
    """Which names of a thread's ranges stand for one phase; the columns are those below."""

    def __init__(self) -> None: ...
    def add(
        self,
        start_ns: NDArray[np.int64],
        end_ns: NDArray[np.int64],
        key: NDArray[np.int32],
        is_auto: NDArray[np.uint8],
    ) -> None:
        """Learn from a part of the thread's ranges."""

def merge_phases(
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
    key: NDArray[np.int32],
    is_auto: NDArray[np.uint8],
    steps: NDArray[np.int64],
    *,
    names: PhaseNames,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Let the ranges of a program win over the phases of the same meaning, on one thread.

    The columns are in the order of (start, -end); negative steps are not known. Returns start_ns,
    end_ns, row of the input and environment steps of what is left, in no order.
    """
