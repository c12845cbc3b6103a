"""The native module that records: what it offers to Python."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

# Capture: load, attach, drain. System errors arrive as OSError with their errno.

class BtfCapture:
    """The programs of bpf/sched.bpf.c, loaded."""

    def __init__(self, object_path: str, ring_bytes: int) -> None: ...
    def attach(self) -> None: ...
    def mark(self, pidfd: int) -> None:
        """Make a process a target; after attach, before enter_existing."""

    def enter_existing(self) -> int:
        """Enter the targets with their threads and descendants; return how many threads."""

    def detach(self) -> None: ...
    def close_open(self) -> None:
        """Write the open end of every thread into the ring; after detach."""

    def tell_open(self) -> bytes:
        """Return what each thread is doing: rls_rec_close, one behind the other."""

    @property
    def ring_fd(self) -> int: ...
    @property
    def loss_fd(self) -> int: ...
    @property
    def threads_fd(self) -> int: ...
    def missed_runs(self) -> int: ...
    def failed_updates(self) -> int: ...

class MessageCapture:
    """The programs of bpf/message.bpf.c for sockets, or for pipes, attached.

    Writes into the ring of a BtfCapture, whose file descriptors it is given.
    """

    def __init__(
        self, object_path: str, *, threads_fd: int, ring_fd: int, loss_fd: int, of_pipes: bool
    ) -> None: ...
    def detach(self) -> None: ...

class TracepointCapture:
    """The programs of bpf/sched_tp.bpf.c, loaded by libbpf."""

    def __init__(self, object_path: str, ring_bytes: int, offsets: dict[str, int]) -> None: ...
    def attach(self, only: Sequence[str] = ()) -> None:
        """Attach all programs, or those with these names."""

    def detach(self) -> None: ...
    @property
    def ring_fd(self) -> int: ...
    @property
    def loss_fd(self) -> int: ...
    @property
    def threads_fd(self) -> int: ...
    @property
    def control_fd(self) -> int: ...
    def missed_runs(self) -> int: ...

class ThreadTable:
    """The hash of thread ids that is the filter without BTF. Borrows its file descriptors."""

    def __init__(self, threads_fd: int, control_fd: int) -> None: ...
    def enter(
        self,
        *,
        tid: int,
        tgid: int,
        parent_tgid: int,
        born_ns: int,
        off_state: int,
        cpu: int,
        comm: str,
    ) -> bool:
        """Enter a thread unless it is there; whether it was new."""

    def close_open(self, spool: SpoolWriter) -> None:
        """Write the open end of every thread into the spool; after the programs are detached."""

    def tell_open(self) -> bytes:
        """Return what each thread is doing: rls_rec_close, one behind the other."""

    def failed_updates(self) -> int: ...

class SpoolWriter:
    """Appends records to a spool directory; what a full disk does not take is counted."""

    def __init__(self, directory: str, cpus: int, totals: LiveTotals | None = None) -> None:
        """totals: with it the spool has segments, see rotate(); they see all that is appended."""

    def rotate(self, number: int, *, missed_runs: int, failed_updates: int) -> bool:
        """Go on in a new segment, if there is room for one; numbers grow. Raises OSError.

        missed_runs, failed_updates: until now, as for finish().
        """

    def append_clock(self) -> None: ...
    def append_command(self, pid: int, arguments: bytes) -> None:
        """Note the NUL-separated command line of a process found at attach."""

    def finish(self, *, end_ns: int, missed_runs: int, failed_updates: int) -> None: ...
    def counters(self) -> dict[str, int]:
        """Return records, lost, bytes and write_error (an errno, 0 if writing works)."""

class LiveTotals:
    """Sums of what threads do, of all that a spool is given."""

    def __init__(self, has_sums: bool = True) -> None:
        """has_sums: else they know no more than rotate() needs."""

    def snapshot(self, open: bytes, now_ns: int) -> dict[str, Any]:
        """Return all sums at now_ns; open: what tell_open said just after.

        threads, functions (name, samples by layer since the last time), commands by pid, records.
        """

class TracedProcesses:
    """The processes of the target, and what they start: whose shims are heard."""

    def add(self, pids: Sequence[int]) -> None: ...

class DiskSpace:
    """Keeps some space free on the disk of a directory: see docs/capture.md."""

    def __init__(self, directory: str) -> None: ...
    def has_room(self, bytes: int) -> bool:
        """Tell whether so many bytes may be written."""

    @property
    def reserve(self) -> int:
        """How many bytes are kept free."""

def open_mapped(pid: int, start: int, end: int, inode: int, path: str) -> int:
    """Open the file that is mapped there, asking nobody who could let us wait; -1: it cannot be."""

def shown_memory(pid: int, name: str, most: int) -> bytes:
    """Read /proc/PID/cmdline or environ; nothing where a program serves the memory it lies in."""

class HeldUp:
    """Whether a thread of ours does nothing but wait in the OS kernel."""

    def is_since(self, tid: int) -> bool:
        """Tell whether it has not run since the last call, nor is about to."""

class PerfRight:
    """A `with` block in which this thread may open perf events where that takes CAP_SYS_ADMIN."""

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...

class Drain:
    """The thread that empties the ring into the spool."""

    def __init__(
        self, ring_fd: int, loss_fd: int, spool: SpoolWriter, traced: TracedProcesses | None = None
    ) -> None:
        """traced: is told which processes enter the trace."""

    def start(self) -> None: ...
    def stop(self) -> None:
        """Empty the ring a last time and end the thread."""

    def empty(self) -> int:
        """Empty the ring now; return how many bytes there were."""

    @property
    def processes(self) -> int: ...
    @property
    def new_pids_fd(self) -> int:
        """Readable from when one enters or calls exec, or wake() is called, until taken."""

    def wake(self) -> None:
        """End the waiting for new processes."""

    def take_new_pids(self) -> list[int]:
        """Return the pids of the processes that entered since the last call."""

    def take_replaced_pids(self) -> list[int]:
        """Return those that called exec since, by their pids of the first pid namespace."""

def wait_signal(numbers: Sequence[int], timeout_s: float) -> tuple[int, int]:
    """Take a blocked signal: its number, 0 for none, and its si_code."""

def missed_runs(program_fd: int) -> int:
    """Return how often the OS kernel skipped a program, whoever loaded it."""

def tracepoint_fields() -> list[tuple[str, str, str, str]]:
    """Return name, group, tracepoint and field of every offset that the programs need."""

def wait_for_running_programs() -> None:
    """Return when no program that was detached before is running any more."""

def possible_cpus() -> int: ...

class ShimCollector:
    """The thread that empties the rings of the shims into shim.bin of a spool.

    `session` is the name of the abstract unix socket on which processes announce themselves.
    """

    def __init__(
        self,
        directory: str,
        session: str,
        traced: TracedProcesses | None = None,
        has_segments: bool = False,
        has_sums: bool = False,
    ) -> None:
        """traced: the processes that are read; None: all that announce themselves.

        has_segments: see rotate(); has_sums: phases() and gpu_work() tell something, which takes
        segments.
        """

    def rotate(self, number: int) -> bool:
        """Go on in a new segment, if there is room for one; numbers grow."""

    def start(self) -> None: ...
    def phases(self, now_ns: int) -> list[tuple[Any, ...]]:
        """Return the sums of each thread and name: see record.live.reading.Phase."""

    def gpu_work(self) -> list[tuple[int, int, int]]:
        """Return pid, ns and number of what the GPUs of each process did."""

    def stop(self) -> None:
        """Read what is there a last time and let the processes go."""

    def find(self, pid: int) -> int:
        """Look for shims in a process; return how many new ones there were."""

    def knows(self, pid: int) -> bool:
        """Tell whether a process that is still there is among the sources."""

    def is_taken(self, pid: int) -> bool:
        """Tell whether find() saw that another recorder reads the process."""

    def gpu_state(self, pid: int) -> Literal["on", "off", "refused"] | None:
        """Return what a running process said of its GPU activity; refused also: not its calls."""

    def refused(self) -> dict[str, int]:
        """Return how often something was not taken: damaged, limited, no_room, memories, ..."""

    @property
    def is_full(self) -> bool:
        """Tell whether what was read last found no room on the disk."""

    @property
    def sources(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def listings(self) -> int:
        """How often the threads of a process were listed, to know them by their own ids."""

# --- late attach: inject/bindings.cpp ---

class InjectError(RuntimeError):
    """A library could not be loaded into a process, which runs on unchanged."""

class Injected:
    """How a library came into a process."""

    @property
    def tid(self) -> int: ...
    @property
    def stopped_ns(self) -> int: ...
    @property
    def attempts(self) -> int: ...

def inject(pid: int, library: str, entry: str, data: bytes, *, timeout_ns: int) -> Injected:
    """Load a library into a running process and call a function of it with a copy of `data`."""

def read_variable(pid: int, library: str, name: str, bytes: int) -> bytes:
    """Read an exported variable of a library that is loaded into a process."""

# --- native probes: probes/bindings.cpp ---

class NativeProbes:
    """The programs of bpf/native.bpf.c: exact calls of probed functions, in the traced processes.

    Writes into the ring of a BtfCapture, whose file descriptors it is given. `sites`: site ids are
    below it. `mode`: the best way this kernel takes ("auto"), or the one named. Raises OSError.

    A function that a C++ exception passes through must not be probed, nor must be any in a process
    that switches stacks on one thread (greenlet): both end the process.
    """

    def __init__(
        self,
        object_path: str,
        *,
        threads_fd: int,
        ring_fd: int,
        loss_fd: int,
        sites: int,
        mode: str = "auto",
    ) -> None: ...
    def attach(self, path: str, points: Sequence[tuple[int, int, int]]) -> None:
        """Probe functions of a file: (file offset, site_id, layer) each. All of them or none.

        `path` is opened as given. Raises OSError: EEXIST for a site that is probed, ERANGE for a
        site id out of range, ENOSPC above the limit.
        """

    def drop(self, site_ids: Sequence[int]) -> None:
        """Take the probes of these sites away for good; the others of their files stay."""

    def attach_gil(
        self, path: str, save_offsets: Sequence[int], restore_offsets: Sequence[int]
    ) -> None:
        """Record when the GIL is given away and taken back: PyEval_SaveThread and the like."""

    def detach(self) -> None:
        """Take all probes away. When it returns, the code of all processes is the original."""

    def close_open(self) -> None:
        """Detach, and write the calls that are still under way into the ring."""

    def counters(self) -> dict[int, tuple[int, int]]:
        """Return hits and their time in ns of each site that was called."""

    def missed(self) -> int:
        """Return how often the OS kernel skipped a program."""

    @property
    def unmatched(self) -> int:
        """Returns of calls that began before the probes, or in the process that was forked."""

    @property
    def too_deep(self) -> int:
        """Calls inside 16 probed calls."""

    @property
    def abandoned(self) -> int:
        """Calls that were under way while another site of their file was dropped."""

    @property
    def declined(self) -> int:
        """Calls in a signal handler with a stack of its own, which interrupted a probed call."""

    @property
    def failed(self) -> int:
        """Calls that there was no memory to remember."""

    @property
    def mode(self) -> str:
        """The way that is taken: "session", "multi" or "perf"."""

    @property
    def attempts(self) -> list[tuple[str, str]]:
        """The ways that were tried, and why each did not work: empty for the one taken."""

    @property
    def limit(self) -> int | None:
        """How many points there may be at once; None: no limit."""

# --- sampler: samples/bindings.cpp ---

class Sampler:
    """Samples the running threads of a trace, and writes them classified into the spool.

    rules: globs over the paths of mappings in order of priority, `*` crosses slashes; each with the
    code of its layer (enum rls_layer), or 0 for a library that works for whoever calls it. System
    errors arrive as OSError.
    """

    def __init__(
        self,
        object_path: str,
        *,
        threads_fd: int,
        loss_fd: int,
        hz: int,
        spool: SpoolWriter,
        rules: Sequence[tuple[str, int]],
    ) -> None: ...
    def start(self) -> None:
        """Begin to sample every CPU; OSError where the OS kernel refuses its clock events."""

    def note_python(self, pid: int, runtime: dict[str, Any]) -> str | None:
        """Sample the Python functions of a process, too; return why not, if not.

        runtime: `version` (major, minor, ...), `runtime_start` (address of _PyRuntime) and, if it
        is one, `free_threaded`. To be reported again when the process has replaced its program.
        """

    def suspend(self) -> int:
        """Take no samples until resume(); return since when, in ns."""

    def resume(self) -> int:
        """Sample again; return until when there was none."""

    def stop(self) -> None:
        """End the sampling and write what is left; safe to call twice."""

    @property
    def is_left_behind(self) -> bool:
        """Whether stop() left a thread behind that the target holds up."""

    def counters(self) -> dict[str, int]: ...

def code_waits(code: bytes, at: int) -> bool:
    """Return whether `code[at]` lies in a loop that does nothing but wait."""

def code_waits_busily(code: bytes, at: int) -> bool:
    """Return whether it lies in a longer one, as LLVM's and Intel's OpenMP wait by."""

def code_ends_in_call(code: bytes) -> bool:
    """Return whether the bytes end in a call."""

# --- finder: finder/bindings.cpp ---

class PythonScan:
    """A running process, read from outside: it is never stopped and never written to.

    All calls may raise OSError: ESRCH when the program that was opened has ended or became another
    one by exec, EPERM or EACCES when it may not be read. They work without the GIL, on a thread of
    low priority.
    """

    def __init__(self, pid: int) -> None: ...
    @property
    def is_served(self) -> bool:
        """Whether a program serves some of its memory, which is not read then."""

    def mappings(self) -> list[tuple[str, int, int, int, int, int]]:
        """Return the executable file mappings: path, device, inode, start, end, file offset."""

    def runtime(self) -> dict[str, Any] | None:
        """Return what is known of the Python interpreter, None where there is none.

        implementation ("cpython" or "pypy"), version (major, minor, micro as far as known),
        free_threaded, runtime_start and runtime_end (addresses of `_PyRuntime`; None for PyPy),
        module_path (the file the interpreter lies in), interpreters (their number or None),
        symbols (name -> address, file offset, of exported functions that handle the GIL).
        """

    def entry_points(self, paths: Iterable[str], *, budget_bytes: int = ...) -> dict[str, Any]:
        """Find the functions in these mapped files that CPython calls through its objects.

        points: (path, file offset to probe, symbol, kind, file offset of the function's start,
        whether it has to be stepped there, which is expensive), each offset once; kind is function,
        method, vectorcall, slot or getter. rejected: reason -> number of addresses without a
        probe. scanned_bytes: of one pass over the memory; unscanned_bytes: what lay beyond the
        budget. No points: no CPython.
        """

    def exported(self, path: str, names: Sequence[str]) -> dict[str, int]:
        """Return the file offset to probe of each exported function that has a cheap one."""

    def cancel(self) -> None:
        """Let the others end with OSError (ECANCELED), now and from now on; from any thread."""

class FunctionFile:
    """A file of code, read from its symbols; OSError where it cannot be opened as a regular file.

    A file that is damaged, or is no code, has no functions.
    """

    def __init__(self, path: str) -> None: ...
    def names(self, prefix: str) -> list[str]:
        """Return the names of its own functions that begin so, exported ones and others."""

    def sites(self, names: Sequence[str]) -> dict[str, tuple[int, int, bool] | str]:
        """Return where to probe functions that names() gave, by name.

        (file offset to probe, file offset of the function, whether that is expensive); a text: why
        it cannot be probed.
        """

    def imports(self, prefix: str) -> bool:
        """Tell whether it asks other files for a symbol whose name begins so."""

    def has_section(self, name: str) -> bool: ...

def cheap_site(code: bytes) -> int | str:
    """Return where in a function a probe is cheap, as a distance from its start, or why nowhere."""
