"""One recording: from loaded programs to a complete spool."""

from __future__ import annotations

import errno
import json
import os
import platform
import time
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import rlscope_trace
from rlscope_trace import _capture
from rlscope_trace.errors import OutputExistsError, SpoolError, UsageError
from rlscope_trace.outputs.private import (
    NotOursError,
    PrivateFolder,
    make_private,
    open_private,
)
from rlscope_trace.procfs import is_running
from rlscope_trace.record.bounded import Bounded
from rlscope_trace.record.inject import shim_is_loaded
from rlscope_trace.record.last import LastKept
from rlscope_trace.record.live.reading import Reading, read_totals
from rlscope_trace.record.loaders.tid_filter import parent_of, process_tree
from rlscope_trace.record.machine_speed import probe_machine
from rlscope_trace.record.os_counters import OsCounters
from rlscope_trace.record.probes.process import AddressSpace, address_space
from rlscope_trace.record.probes.process_monitor import ProcessMonitor
from rlscope_trace.record.shims import TAKEN
from rlscope_trace.record.surroundings import Surroundings
from rlscope_trace.spool.counter_file import OS_COUNTERS_FILE
from rlscope_trace.spool.directory import SESSION_FILE, open_spool, process_start_time, unlink_files
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlscope_analysis.schema.facts.fact import Fact
    from rlscope_trace.outputs.place import Place
    from rlscope_trace.record.backends import Opened
    from rlscope_trace.record.loaders.capture import TracedProcess
    from rlscope_trace.record.probes.cuda_calls import GpuState
    from rlscope_trace.record.probes.settings import ProbeSettings

CLOCK_INTERVAL_NS = 60_000_000_000
# Shims announce themselves; this is for those that cannot reach us.
_SHIM_SEARCH_INTERVAL_NS = 5_000_000_000
# The target decides how long one takes, and a signal waits meanwhile.
_SHIM_SEARCH_NS = 1_000_000_000
_MIB = 1 << 20
# More than Linux passes to a program.
_ARGUMENT_BYTES = 6 * _MIB
# Of what the shims lost: see ShimCollector.refused.
COUNTED_REFUSALS = ("damaged", "limited", "no_room", "memories")


@dataclass(frozen=True, slots=True)
class Counters:
    """Where a recording stands."""

    elapsed_ns: int
    records: int
    processes: int
    lost: int
    bytes: int
    write_error: int
    """errno of the last failed write to the spool; 0: the last one worked."""
    dropped_operations: int = 0
    """Which the rings of the shims had no room for."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """What of the shims was not taken, by reason: see ShimCollector.refused."""


def ring_bytes(mib: int) -> int:
    """Return the size of the ring in bytes; the OS kernel takes powers of two only."""
    if mib < 1 or mib > 1024 or mib & (mib - 1):
        raise UsageError(
            f"--ring-mib {mib} is not a power of two from 1 to 1024", hint="--ring-mib 64"
        )
    return mib * _MIB


def spool_directory(output: Path) -> Path:
    """Return where the recording of this output is spooled: beside it."""
    return output.with_name(output.name + ".spool")


def prepare_output(place: Place, *, force: bool) -> PrivateFolder:
    """Make the spool directory of an output that may be written; return it.

    Raises OutputExistsError where something would be lost, OSError where the directory cannot be
    written.
    """
    place.refuse_existing(overwrite=True)
    if place.status() is not None and not force:
        raise OutputExistsError(f"{place.path} exists", hint="--force to replace it, or -o OTHER")
    directory = spool_directory(place.path)
    try:
        return make_private(place.folder, directory)
    except FileExistsError:
        return _left_behind(place, directory, force=force)


def _left_behind(place: Place, directory: Path, *, force: bool) -> PrivateFolder:
    """Take over the directory of an earlier recording, if nothing in it would be missed."""
    try:
        folder = open_private(place.folder, directory)
    except OSError as error:
        # A link, a file, or a directory of another user.
        raise NotOursError(directory) from error
    try:
        _empty(folder, force=force)
    except BaseException:
        folder.close()
        raise
    return folder


def _empty(folder: PrivateFolder, *, force: bool) -> None:
    """Remove an old spool, and nothing else that may lie there."""
    if folder.is_empty():
        return
    try:
        live = open_spool(folder.path, shown=folder.shown).is_live()
    except SpoolError:
        live = False
    if live:
        raise OutputExistsError(
            f"another recorder is writing {folder.shown}",
            hint="-o names another place for the trace",
        )
    if not force:
        raise OutputExistsError(
            f"{folder.shown} is left from a recording that was not finished",
            hint=f"rlscope-trace recover {shell_line([str(folder.shown)])}, or --force to discard"
            " it",
        )
    unlink_files(folder.path)
    if not folder.is_empty():
        raise NotOursError(folder.shown)


@dataclass(slots=True)
class Session:
    """Records into a spool. In this order: start, then counters at will, then stop."""

    opened: Opened
    directory: Path
    facts: dict[str, object]
    """What else belongs into the trace's meta table."""
    shim_session: str
    """Where shims announce themselves: see rlscope_trace.record.shims."""
    probe_settings: ProbeSettings
    listens: bool = True
    """Whether shims are looked for in processes that have not announced themselves."""
    watches: bool = False
    """Whether look() is asked for: only where last_ns is."""
    last_ns: int | None = None
    """Of how much time the end is kept, until keep(); None: all of it."""
    probes: bool = True
    """Whether it is measured how fast the machine is, when the target has ended."""
    clock_ns: Callable[[], int] = time.monotonic_ns
    started_ns: int = 0
    _totals: _capture.LiveTotals | None = field(default=None, init=False)
    _last: LastKept | None = field(default=None, init=False)
    _spool: _capture.SpoolWriter | None = field(default=None, init=False)
    _drain: _capture.Drain | None = field(default=None, init=False)
    _shims: _capture.ShimCollector | None = field(default=None, init=False)
    _monitor: ProcessMonitor | None = field(default=None, init=False)
    _os_counters: OsCounters | None = field(default=None, init=False)
    _surroundings: Surroundings | None = field(default=None, init=False)
    _traced: _capture.TracedProcesses = field(init=False)
    _pids: set[int] = field(default_factory=set, init=False)
    _followed: list[int] = field(default_factory=list, init=False)
    _refused: set[int] = field(default_factory=set, init=False)
    _taken: set[int] = field(default_factory=set, init=False)
    _search_from: int = field(default=0, init=False)
    _without_shim: dict[int, AddressSpace] = field(default_factory=dict, init=False)
    """Processes that had none, and what they had mapped then."""
    _next_search_ns: int = field(default=0, init=False)
    _next_clock_ns: int = field(default=0, init=False)

    def start(self, processes: Sequence[TracedProcess]) -> int:
        """Attach and enter the processes; return how many threads they have."""
        capture = self.opened.capture
        self.started_ns = self.clock_ns()
        self._write_session_file()
        if self.last_ns is not None:
            self._last = LastKept(self.directory, self.last_ns, self.clock_ns)
            self.facts["last_ns"] = self.last_ns
            self._totals = _capture.LiveTotals(has_sums=self.watches)
        self._spool = _capture.SpoolWriter(
            str(self.directory), _capture.possible_cpus(), self._totals
        )
        traced = self._traced = _capture.TracedProcesses()
        self._drain = _capture.Drain(capture.ring_fd, capture.loss_fd, self._spool, traced)
        self._shims = _capture.ShimCollector(
            str(self.directory), self.shim_session, traced,
            has_segments=self._last is not None, has_sums=self.watches,
        )  # fmt: skip
        self._append_clock_when_due()
        capture.attach()
        threads = capture.enter(processes)
        traced.add([process.pid for process in processes])
        self._drain.start()
        self._shims.start()
        # From here on nothing the processes do is missed.
        self.facts |= {"live_ns": self.clock_ns(), "threads_found": threads}
        self._pids = {process.pid for process in processes}
        found = list(process_tree(self._pids))
        _append_commands(self._spool, found)
        # Loaded when the scheduler is traced already: a running target does not wait for us.
        self._monitor = ProcessMonitor(
            self.probe_settings, self.directory, self._spool, capture, self._gpu_state
        )
        self._monitor.start(found, self._drain)
        self.facts["probe_settings"] = self._monitor.facts()
        self._os_counters = OsCounters(self.directory / OS_COUNTERS_FILE, self._pids, self.clock_ns)
        self._os_counters.read_when_due(found)
        self.find_shims()
        self._next_search_ns = self.clock_ns()
        self._surroundings = Surroundings(processes[0].pid)
        self._surroundings.look()
        if "environment_variables" not in self.facts:
            # Of a program that we launch they are known: it has not begun.
            self.facts["environment_variables"] = self._surroundings.variables()
        self._write_session_file()
        return threads

    def add(self, processes: Sequence[TracedProcess]) -> None:
        """Trace more processes from now on, with those that they started."""
        if self._drain is None or self._spool is None:
            raise RuntimeError("the session is not running")
        known = set(process_tree(self._pids))
        new = [process for process in processes if process.pid not in known]
        if not new:
            return
        self.opened.capture.enter(new)
        pids = {process.pid for process in new}
        self._traced.add(list(pids))
        self._pids |= pids
        _append_commands(self._spool, process_tree(pids))

    def note_late(self, pid: int, *, measured: bool, facts: Sequence[Fact]) -> None:
        """Note what a late attach gave, an entry for each fact: for the table coverage."""
        noted = self.facts.setdefault("operations_late", [])
        if isinstance(noted, list):
            head = {"pid": pid, "measured": measured}
            noted += [{**head, "fact": fact.to_json()} for fact in facts] or [
                {**head, "fact": None}
            ]
        self._note_facts()

    def find_shims(self) -> int:
        """Look for shims in all processes of the target; return how many have been found so far."""
        _, _, shims = self._running()
        without = {}
        for pid in self._to_search() if self.listens else ():
            space = address_space(pid)
            if space == self._without_shim.get(pid):
                # A shim maps its memory, and nothing has been mapped since.
                without[pid] = space
                continue
            shims.find(pid)
            if shims.knows(pid):
                self._refused.discard(pid)
            elif shims.is_taken(pid):
                self._note_taken(pid)
            elif not shim_is_loaded(pid):
                if space.size_bytes:
                    without[pid] = space
            elif not shims.knows(parent_of(pid)):
                # Else a fork of one that is heard: silent because it marks nothing.
                self._refused.add(pid)
        self._without_shim = without
        self._next_search_ns = self.clock_ns() + _SHIM_SEARCH_INTERVAL_NS
        return shims.sources

    def _to_search(self) -> Iterator[int]:
        """Yield processes for as long as that may take; those left out come first another time."""
        end_ns = self.clock_ns() + _SHIM_SEARCH_NS
        known = self._monitor.known() if self._monitor is not None else process_tree(self._pids)
        pids = sorted({*self._pids, *known})
        at = bisect_left(pids, self._search_from)
        for pid in (*pids[at:], *pids[:at]):
            self._search_from = pid
            if self.clock_ns() > end_ns:
                return
            yield pid

    def _gpu_state(self, pid: int) -> GpuState | None:
        """Return what the shim in a process said of CUPTI; None: nothing so far."""
        return None if self._shims is None else self._shims.gpu_state(pid)

    def all_taken(self) -> bool:
        """Tell whether another recorder reads the operations of all targets."""
        return self._taken >= self._pids

    def _note_taken(self, pid: int) -> None:
        self._taken.add(pid)
        self.facts["shim_taken_pids"] = sorted(self._taken)
        if self.all_taken():
            self.facts["operations"] = {"measured": False, "fact": TAKEN.to_json()}

    def counters(self) -> Counters:
        """Return where the recording stands; call it at least once a minute."""
        spool, drain, shims = self._running()
        self.housekeep()
        values = spool.counters()
        refused = shims.refused()
        return Counters(
            elapsed_ns=self.clock_ns() - self.started_ns,
            records=values["records"] + shims.events,
            processes=drain.processes,
            lost=values["lost"] + shims.lost,
            bytes=self._last.bytes(values["bytes"]) if self._last else values["bytes"],
            write_error=values["write_error"] or (errno.ENOSPC if shims.is_full else 0),
            dropped_operations=shims.lost - sum(refused[reason] for reason in COUNTED_REFUSALS),
            refused=refused,
        )

    def look(self) -> Reading:
        """Return all sums at this instant, of a target that is watched."""
        spool, drain, shims = self._running()
        if self._totals is None:
            raise RuntimeError("the session does not watch")
        now_ns = self.clock_ns()
        open_now = self.opened.capture.tell_open()
        # What was written before the threads were asked is added up, too.
        drain.empty()
        lost = spool.counters()["lost"] + shims.lost
        return read_totals(open_now, now_ns, self._totals, shims, lost)

    def keep(self) -> None:
        """Keep what is there now of the last seconds, and all that follows."""
        if self._last is not None:
            self._last.keep_all()

    def stop(self) -> Counters:
        """Write the open ends, detach and complete the spool; what counters() says at the end."""
        spool, drain, shims = self._running()
        capture = self.opened.capture
        self._last = None
        if self._monitor is not None:
            self._monitor.end()
        if self._os_counters is not None and self._monitor is not None:
            self._os_counters.stop(self._monitor.known())
            self._os_counters = None
        # What threads do from here on belongs to no trace, and is cut by the decoder.
        end_ns = self.clock_ns()
        self.find_shims()
        shims.stop()
        if self._monitor is not None:
            self._monitor.stop()
        missed_runs = capture.missed_runs()
        capture.finish(spool)
        # Before the ring is emptied for the last time, as every record: see Progress.latest_ns.
        spool.append_clock()
        drain.stop()
        self._followed = self._monitor.pids() if self._monitor is not None else []
        spool.finish(
            end_ns=end_ns, missed_runs=missed_runs, failed_updates=capture.failed_updates()
        )
        if self._refused:
            self.facts["shim_refused_pids"] = sorted(self._refused)
        if self._surroundings is not None:
            self.facts["environment"] = found = self._surroundings.facts
            if cpus := found.get("cpus"):
                # Ours may be others, where the target is no child of ours.
                self.facts["cpus_allowed"] = cpus
            self._surroundings.close()
            self._surroundings = None
        # Beside the target it would tell of the target, and slow it.
        is_free = self.probes and not self.target_runs()
        self.facts["probes"] = probe_machine() if is_free else None
        self._note_facts()
        # The spool is complete.
        self._next_search_ns = self._next_clock_ns = 2**63
        counters = replace(self.counters(), elapsed_ns=end_ns - self.started_ns)
        self._spool = self._drain = self._shims = self._monitor = None
        return counters

    def abandon(self) -> None:
        """End the threads of a recording that is not kept, as far as it was begun.

        Python must not end while one of them is in C++: the process would abort.
        """
        if self._monitor is not None:
            self._monitor.stop()
        if self._surroundings is not None:
            self._surroundings.close()
        for part in (self._shims, self._drain):
            if part is not None:
                part.stop()
        self._spool = self._drain = self._shims = self._monitor = self._surroundings = None

    def housekeep(self) -> None:
        """Do what is due: counters() does so, too."""
        self._append_clock_when_due()
        if self.clock_ns() >= self._next_search_ns:
            self.find_shims()
        if self._os_counters is not None and self._monitor is not None:
            self._os_counters.read_when_due(self._monitor.known())
        if self._surroundings is not None:
            self._surroundings.look_when_due()
        if self._last is not None and self._last.is_due():
            self._rotate(self._last)

    def _rotate(self, last: LastKept) -> None:
        spool, drain, shims = self._running()
        capture = self.opened.capture
        drain.empty()
        last.rotate(
            spool, shims, missed_runs=capture.missed_runs(),
            failed_updates=capture.failed_updates(),
        )  # fmt: skip
        if last.from_ns and self._monitor is not None and self._os_counters is not None:
            self._os_counters.forget_before(last.from_ns)
            self._monitor.forget_before(last.from_ns)

    @property
    def kept_from_ns(self) -> int:
        """From when on everything is kept, at least; 0: since the beginning."""
        return 0 if self._last is None else self._last.from_ns

    def target_runs(self) -> bool:
        """Tell, after stop(), whether a process that was traced has not ended yet."""
        return any(is_running(pid) for pid in self._followed)

    def _running(self) -> tuple[_capture.SpoolWriter, _capture.Drain, _capture.ShimCollector]:
        if self._spool is None or self._drain is None or self._shims is None:
            raise RuntimeError("the session is not running")
        return self._spool, self._drain, self._shims

    def _append_clock_when_due(self) -> None:
        now_ns = self.clock_ns()
        if self._spool is not None and now_ns >= self._next_clock_ns:
            self._next_clock_ns = now_ns + CLOCK_INTERVAL_NS
            self._spool.append_clock()

    def _note_facts(self) -> None:
        """Write the facts so far, unless the disk is full: stop() writes all of them again."""
        with suppress(OSError):
            self._write_session_file()

    def _write_session_file(self) -> None:
        facts = {
            "tool_version": rlscope_trace.__version__,
            "host": platform.node(),
            "kernel": platform.release(),
            "machine": platform.machine(),
            "cpus_allowed": _status_value("Cpus_allowed_list"),
            "loader": self.opened.loader,
            "capture": self.opened.backend,
            "backends": self.opened.tried(),
            "started_ns": self.started_ns,
            "recorder_pid": os.getpid(),
            "recorder_starttime": process_start_time(os.getpid()),
            **self.facts,
        }
        # Whole or not at all: a recorder may be killed while it writes this.
        written = self.directory / f"{SESSION_FILE}.new"
        # A new file, never one that somebody put there: we are root, the folder may not be ours.
        try:
            with written.open("x") as file:
                file.write(json.dumps(facts, indent=1) + "\n")
            written.replace(self.directory / SESSION_FILE)
        except OSError:
            # What a full disk took of it would be in the way when there is room again.
            written.unlink(missing_ok=True)
            raise


def _status_value(name: str) -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    return ""


def _append_commands(spool: _capture.SpoolWriter, pids: Iterable[int]) -> None:
    """Write the command lines of processes."""
    bounded = Bounded(patience_s=1)
    for pid in pids:
        spool.append_command(pid, _command_line(pid, bounded))
    bounded.close()


def _command_line(pid: int, bounded: Bounded) -> bytes:
    """Return the NUL-separated arguments; nothing for a process that has ended, or holds us up."""
    try:
        # They lie in its memory.
        return bounded.call(partial(_capture.shown_memory, pid, "cmdline", _ARGUMENT_BYTES))
    except OSError:
        return b""
