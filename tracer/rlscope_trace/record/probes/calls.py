"""Exact calls: which functions are probed, and what the governor decides about them."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.facts.sites import NOT_PROBED, PROBED
from rlscope_trace import _capture
from rlscope_trace.record.bounded import HeldUpError, go_on, leave_behind
from rlscope_trace.record.governor import Governor
from rlscope_trace.record.layers import switches_stacks
from rlscope_trace.record.loaders.capture import bpf_file
from rlscope_trace.record.probes.modules import Module, files_of, open_file, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_trace.record.layers import LayerRules
    from rlscope_trace.record.loaders.capture import Capture
    from rlscope_trace.record.probes.log import ProbeLog
    from rlscope_trace.record.probes.process import FileKey, Mapping, Process
    from rlscope_trace.record.probes.settings import ProbeSettings

_MAX_SITES = 16_384
# Getters take a few hundred nanoseconds and are called for every attribute: the probe would cost
# ten times what it measures.
_LEFT_OUT = frozenset({"getter"})
# Path, offset to probe, name, kind, offset of the function, whether a probe there is expensive:
# PythonScan.entry_points().
Point = tuple[str, int, str, str, int, bool]
# What Python's C API gives the GIL away with, and takes it back.
GIL_RELEASES = ("PyEval_SaveThread", "PyEval_ReleaseThread")
GIL_TAKES = ("PyEval_RestoreThread", "PyEval_AcquireThread")
_LAYER_CODES = {"simulator": 2, "backend": 3, "cuda_api": 4}


class CallProbes:
    """The probes of one recording: found in processes, kept per file, dropped if they cost."""

    def __init__(
        self,
        settings: ProbeSettings,
        rules: LayerRules,
        log: ProbeLog,
        capture: Capture,
    ) -> None:
        self._layers = settings.layers
        self._rules = rules
        self._log = log
        self._probes = _capture.NativeProbes(
            str(bpf_file("native.bpf.o")),
            threads_fd=capture.task_storage_fd or -1, ring_fd=capture.ring_fd,
            loss_fd=capture.loss_fd, sites=_MAX_SITES,
        )  # fmt: skip
        self._governor = Governor(budget=settings.probe_budget)
        self._modules: dict[FileKey, Module] = {}
        # By id(): those with sites, of the CUDA API too.
        self._probed_modules: dict[int, Module] = {}
        self._interpreters: set[FileKey] = set()
        self._site_count = 0
        self._is_given_up = False
        self._is_cancelled = False
        self._is_attaching = False
        self._is_abandoned = False
        self._scan: _capture.PythonScan | None = None
        # Hits and ns by site, when the recording ended.
        self._counted: dict[int, tuple[int, int]] | None = None

    @property
    def mode(self) -> str:
        """How calls are probed: session, multi or perf."""
        return self._probes.mode

    @property
    def is_given_up(self) -> bool:
        """Whether all probes were taken away for the rest of the recording."""
        return self._is_given_up

    @property
    def is_cancelled(self) -> bool:
        """Whether the recording is about to end."""
        return self._is_cancelled

    def look(self, process: Process, now_ns: int, *, changed: bool) -> None:
        """Probe what a process has loaded since the last time; changed: it has other mappings."""
        if self._is_given_up:
            return
        if changed:
            if self.refuses(process):
                return
            self._note_modules(process, now_ns)
        due = self._due_files(process, now_ns)
        if not due:
            return
        self._scan = scan = _capture.PythonScan(process.pid)
        if self._is_cancelled:
            return
        found = scan.entry_points([mapping[0] for mapping in due.values()])
        is_first = any(not self._modules[key].scans for key in due)
        for reason, count in found["rejected"].items() if is_first else ():
            self._log.append("rejected", pid=process.pid, reason=reason, count=count)
        if found["unscanned_bytes"]:
            self._log.append("unscanned", pid=process.pid, bytes=found["unscanned_bytes"])
        # The points are those of what is mapped now: of a file that was replaced meanwhile, they
        # would lie anywhere.
        mapped = set(scan.mappings())
        for key, mapping in due.items():
            if mapping not in mapped:
                continue
            points = [point for point in found["points"] if point[0] == mapping[0]]
            self._modules[key].scanned(now_ns)
            self.probe(process.pid, mapping, self._modules[key], points)

    def refuses(self, process: Process) -> bool:
        """Tell whether probes could end a process; then all are taken away, for good."""
        switchers = [mapping[0] for mapping in process.mappings if switches_stacks(mapping[0])]
        if switchers:
            self._give_up(process, switchers[0])
        return bool(switchers)

    def cancel(self) -> None:
        """Let look() end soon, from another thread: a scan can take long on a busy machine."""
        self._is_cancelled = True
        if self._scan is not None:
            self._scan.cancel()

    def _due_files(self, process: Process, now_ns: int) -> dict[FileKey, Mapping]:
        """Return the files of a process that are to be scanned; none whose name means several."""
        names = Counter(mapping[0] for mapping in process.modules.values())
        due = {key: mapping for key, mapping in process.modules.items()
               if self._modules[key].is_due(now_ns, is_settled=process.is_settled)}  # fmt: skip
        for key in [key for key, mapping in due.items() if names[mapping[0]] > 1]:
            del due[key]
            self._modules[key].scanned(now_ns)
            reason = "one of several files of the same name"
            self._log.append("rejected", pid=process.pid, reason=reason, count=1)
        return due

    def _give_up(self, process: Process, library: str) -> None:
        """Take all probes away, before one of them can end a process."""
        self.give_up("stack_switching", Path(library).name, pid=process.pid)

    def give_up(self, code: str, detail: str, *, pid: int | None = None) -> None:
        """Take all probes away for the rest of the recording.

        code: why, of the vocabularies of site and of coverage; detail, pid: its parameters.
        """
        self._is_given_up = True
        self._probes.close_open()
        now_ns = time.monotonic_ns()
        for module in self._probed_modules.values():
            for site_id in module.sites.values():
                self._log.append(
                    "dropped", site_id=site_id, code=code, detail=detail,
                    numbers=[] if pid is None else [pid], ts_ns=now_ns,
                )  # fmt: skip
        fact = Fact(code, detail=detail) if pid is None else Fact(code, detail, count=pid)
        self._log.append("gave_up", fact=fact.to_json(), ts_ns=now_ns)

    def _note_modules(self, process: Process, now_ns: int) -> None:
        """Remember which of the files of a process are to be probed."""
        process.modules = {}
        for key, mapping in files_of(process.mappings).items():
            layer = self._rules.layer_of(mapping[0])
            if layer is not None and layer in self._layers:
                process.modules[key] = mapping
                self._modules.setdefault(key, Module(mapping[0], layer, now_ns))

    def probe(self, pid: int, mapping: Mapping, module: Module, points: list[Point]) -> None:
        """Probe those functions of a file that are not probed yet."""
        self._probed_modules.setdefault(id(module), module)
        new = [point for point in points
               if point[1] not in module.sites and point[3] not in _LEFT_OUT]  # fmt: skip
        room = _MAX_SITES - 1 - self._site_count
        if self._probes.limit is not None:
            room = min(room, self._probes.limit - self._site_count)
        for point in new[max(room, 0) :]:
            self._tell_site(module, 0, point, NOT_PROBED, code="too_many")
        new = new[: max(room, 0)]
        # Apart: the OS kernel may refuse an instruction that it would have to step, and then takes
        # none of those that come with it.
        for is_expensive in (False, True):
            part = [point for point in new if point[5] is is_expensive]
            if part:
                self._attach(pid, mapping, module, part)

    def _attach(self, pid: int, mapping: Mapping, module: Module, points: list[Point]) -> None:
        sites = list(enumerate(points, self._site_count + 1))
        code = _LAYER_CODES[module.layer]
        state, why = PROBED, {}
        try:
            if module.fd < 0:
                module.fd = open_file(pid, mapping)
            with self._attaching():
                self._probes.attach(
                    path_of(module.fd), [(point[1], site, code) for site, point in sites]
                )
            module.probed += len(points)
        except HeldUpError:
            raise
        except OSError as error:
            state, why = NOT_PROBED, {"code": "refused", "detail": error.strerror or str(error)}
        self._site_count += len(points)
        for site, point in sites:
            module.sites[point[1]] = site
            if point[5]:
                self._governor.expensive.add(site)
            if module.layer == "cuda_api":
                self._governor.last.add(site)
            self._tell_site(module, site, point, state, **why)

    @contextmanager
    def _attaching(self) -> Iterator[None]:
        go_on()
        self._is_attaching = True
        try:
            yield
        finally:
            # In a thread that was left behind it stays so.
            go_on()
            self._is_attaching = False

    def note_held_up(self) -> None:
        """Take leave of probes that a thread which was left behind is still attaching.

        They go with this process, soon; nothing of them can be asked or changed meanwhile.
        """
        if self._is_attaching and not self._is_abandoned:
            self._is_given_up = self._is_abandoned = True
            leave_behind(self._probes)
            fact = Fact("attaching_held_up")
            self._log.append("gave_up", fact=fact.to_json(), ts_ns=time.monotonic_ns())

    def _tell_site(self, module: Module, site: int, point: Point, state: str, **why: str) -> None:
        self._log.append(
            "site", site_id=site, module=module.path, symbol=point[2], kind=point[3],
            layer=module.layer, file_offset=point[1], state=state, seen_ns=module.seen_ns,
            is_expensive=point[5], ts_ns=time.monotonic_ns(), **why,
        )  # fmt: skip

    def attach_gil(self, process: Process, key: FileKey, offsets: dict[str, int]) -> None:
        """Probe where the interpreter of a process gives the GIL away and takes it back."""
        if self._is_given_up or key in self._interpreters:
            return
        self._interpreters.add(key)
        mapping = files_of(process.mappings)[key]
        releases = [offsets[name] for name in GIL_RELEASES if name in offsets]
        takes = [offsets[name] for name in GIL_TAKES if name in offsets]
        why: Fact | None = None
        if not releases or not takes:
            why = Fact("gil_functions_missing", mapping[0])
        else:
            try:
                self._attach_gil(process.pid, mapping, releases, takes)
            except OSError as error:
                why = Fact("gil_not_probed", mapping[0], error.strerror or str(error))
        reported = None if why is None else why.to_json()
        self._log.append("gil", module=mapping[0], fact=reported)

    def _attach_gil(
        self, pid: int, mapping: Mapping, releases: list[int], takes: list[int]
    ) -> None:
        fd = open_file(pid, mapping)
        try:
            with self._attaching():
                self._probes.attach_gil(path_of(fd), releases, takes)
        finally:
            os.close(fd)

    def govern(self, now_ns: int, cpu_ns: int) -> None:
        """Drop the sites that cost more than the budget allows."""
        if self._is_given_up:
            return
        decisions = self._governor.decide(now_ns, cpu_ns, self._probes.counters())
        if not decisions:
            return
        self._probes.drop([decision.site_id for decision in decisions])
        for decision in decisions:
            self._log.append(
                "dropped", site_id=decision.site_id, code=decision.code,
                numbers=decision.numbers, ts_ns=time.monotonic_ns(),
            )  # fmt: skip

    def note_hits(self) -> None:
        """Note what was counted until now, when the recording ends: the probes go later."""
        if self._counted is None and not self._is_abandoned:
            with suppress(OSError):
                self._counted = self._probes.counters()

    def stop(self) -> None:
        """Write the calls that are under way, then detach."""
        if self._is_abandoned:
            return
        try:
            self._probes.close_open()
            self.note_hits()
            for site_id, (hits, time_ns) in (self._counted or {}).items():
                self._log.append("hits", site_id=site_id, hits=hits, time_ns=time_ns)
            self._log.append(
                "losses", unmatched=self._probes.unmatched, too_deep=self._probes.too_deep,
                abandoned=self._probes.abandoned, declined=self._probes.declined,
                failed=self._probes.failed, missed=self._probes.missed(),
            )  # fmt: skip
        finally:
            self._probes.detach()
            for module in self._probed_modules.values():
                if module.fd >= 0:
                    os.close(module.fd)
