"""Follows the processes of the target: finds Python in them, and what is to be attached."""

from __future__ import annotations

import select
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace import _capture
from rlscope_trace.procfs import is_running
from rlscope_trace.record.bounded import (
    Bounded,
    HeldUpError,
    go_on,
    leave_behind,
    stand_behind,
    start_thread,
)
from rlscope_trace.record.layers import LayerRules
from rlscope_trace.record.loaders.capture import bpf_file
from rlscope_trace.record.probes.calls import GIL_RELEASES, GIL_TAKES, CallProbes
from rlscope_trace.record.probes.cuda_calls import CudaCalls, GpuState
from rlscope_trace.record.probes.log import ProbeLog
from rlscope_trace.record.probes.process import (
    Process,
    address_space,
    cpu_time_ns,
    has_other_clock,
    title_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Any

    from rlscope_trace.record.loaders.capture import Capture
    from rlscope_trace.record.probes.settings import ProbeSettings

# Between two looks, whatever comes.
_SHORTEST_NS, _LONGEST_NS = 50_000_000, 1_000_000_000
_GOVERN_NS = 250_000_000
# Below the target's threads: what is found a moment later is lost for that moment only.
_NICE = 10


class ProcessMonitor:
    """The probes of one recording, and the thread that attaches them as processes come."""

    def __init__(
        self,
        settings: ProbeSettings,
        directory: Path,
        spool: _capture.SpoolWriter,
        capture: Capture,
        gpu_state: Callable[[int], GpuState | None] = lambda _: None,
    ) -> None:
        """spool, capture: those of the recording, which outlive this.

        gpu_state: what the shim in a process said of CUPTI, if it said anything yet.
        """
        self._settings = settings
        self._log = ProbeLog(directory)
        self._rules = LayerRules(settings.simulators, settings.backends)
        self._processes: dict[int, Process] = {}
        self._gone_cpu_ns = 0
        self._next_govern_ns = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._bounded = Bounded(nice=_NICE)
        self._drain: _capture.Drain | None = None
        self.reasons: dict[str, Fact] = {}
        """Kind of record -> why it is not measured."""
        self._calls = self._open_calls(capture)
        self._cuda: CudaCalls | None = None
        if self._calls is not None and settings.cuda_calls != "off":
            self._cuda = CudaCalls(
                self._calls, self._log, mode=settings.cuda_calls, gpu_state=gpu_state
            )
        self._sampler = self._open_sampler(capture, spool)
        self._messages = self._open_messages(capture)

    def _open_calls(self, capture: Capture) -> CallProbes | None:
        is_wanted = self._settings.layers or self._settings.gil == "full"
        if not is_wanted and self._settings.cuda_calls == "off":
            self.reasons["native_call"] = Fact("not_asked_for", "--transitions off")
        elif capture.task_storage_fd is None:
            self.reasons["native_call"] = Fact("btf_needed")
        else:
            try:
                return CallProbes(self._settings, self._rules, self._log, capture)
            except OSError as error:
                self.reasons["native_call"] = Fact("probes_refused", detail=words(error))
        return None

    def _open_sampler(
        self, capture: Capture, spool: _capture.SpoolWriter
    ) -> _capture.Sampler | None:
        if not self._settings.sample_hz:
            self.reasons["cpu_sample"] = Fact("not_asked_for", "--sample-hz 0")
        elif capture.task_storage_fd is None:
            self.reasons["cpu_sample"] = Fact("btf_needed")
        else:
            try:
                return _capture.Sampler(
                    str(bpf_file("sample.bpf.o")), threads_fd=capture.task_storage_fd,
                    loss_fd=capture.loss_fd, hz=self._settings.sample_hz, spool=spool,
                    rules=self._rules.rules(),
                )  # fmt: skip
            except OSError as error:
                self.reasons["cpu_sample"] = Fact("probes_refused", detail=words(error))
        return None

    def _open_messages(self, capture: Capture) -> list[_capture.MessageCapture]:
        opened: list[_capture.MessageCapture] = []
        wanted = {"sockets": ("socket",), "all": ("socket", "pipe"), "off": ()}
        for channel in ("socket", "pipe"):
            kind = f"early_message:{channel}"
            if channel not in wanted[self._settings.messages]:
                option = "sockets" if channel == "socket" else "all"
                self.reasons[kind] = Fact("not_asked_for", f"--messages {option}")
            elif capture.task_storage_fd is None:
                self.reasons[kind] = Fact("btf_needed")
            else:
                try:
                    opened.append(
                        _capture.MessageCapture(
                            str(bpf_file("message.bpf.o")), threads_fd=capture.task_storage_fd,
                            ring_fd=capture.ring_fd, loss_fd=capture.loss_fd,
                            of_pipes=channel == "pipe",
                        )
                    )  # fmt: skip
                except OSError as error:
                    self.reasons[kind] = Fact("probes_refused", detail=words(error))
        return opened

    def start(self, pids: Iterable[int], drain: _capture.Drain) -> None:
        """Begin: with the processes that are there, later with those that `drain` sees enter."""
        self._drain = drain
        if self._sampler is not None:
            try:
                self._sampler.start()
            except OSError as error:
                self.reasons["cpu_sample"] = Fact("clock_refused", detail=words(error))
                self._sampler = None
        for pid in pids:
            self._processes[pid] = Process(pid, is_new=False)
        thread = threading.Thread(target=self._run, name="rls-monitor", daemon=True)
        start_thread(thread)
        # One that could not be started cannot be waited for.
        self._thread = thread

    def facts(self) -> dict[str, object]:
        """Return what the spool gets to know: for the tables meta and coverage."""
        reasons = {kind: fact.to_json() for kind, fact in self.reasons.items()}
        facts = {**self._settings.facts(), "not_measured": reasons}
        if self._calls is not None:
            facts["call_probes"] = self._calls.mode
        return facts

    def known(self) -> list[int]:
        """Return the processes that had not ended when they were last looked at."""
        return list(self._processes)

    def forget_before(self, from_ns: int) -> None:
        """Drop what was noted before a time of processes that are no more."""
        self._log.forget_before(from_ns, self.known())

    def pids(self) -> list[int]:
        """Return, after stop(), the processes that had not ended when they were last seen."""
        self._meet_new()
        return list(self._processes)

    def end(self) -> None:
        """Note what was counted: the recording ends now."""
        if self._calls is not None:
            self._calls.note_hits()

    def stop(self) -> None:
        """Detach everything; afterwards the target is as it was."""
        self.end()
        self._stop.set()
        if self._drain is not None:
            self._drain.wake()
        if self._calls is not None:
            self._calls.cancel()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        try:
            if self._calls is not None:
                self._calls.stop()
        except OSError as error:
            # The recording is to be saved, and the others to be stopped.
            self._log.append("failed", reason=words(error))
        self._calls = None
        for messages in self._messages:
            messages.detach()
        self._messages = []
        if self._sampler is not None:
            self._sampler.stop()
            held_up = self._sampler.is_left_behind
            if held_up:
                leave_behind(self._sampler)
            self._log.append("sampler", held_up=int(held_up), **self._sampler.counters())
            self._sampler = None
        self._log.close()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001
            # A defect of ours, which must not end the recording; but it must be reported. Probes
            # that nobody governs any more could cost the target without limit.
            self._log.append("failed", reason=repr(error))
            if self._calls is not None:
                with suppress(OSError):
                    self._calls.give_up("recorder_failed", repr(error))

    def _follow(self) -> None:
        stand_behind(_NICE)
        while not self._stop.is_set():
            self._wait(self._patience_s(time.monotonic_ns()))
            self._meet_new()
            now_ns = time.monotonic_ns()
            waiting = self._due(now_ns)
            while waiting:
                waiting = self._ask(waiting, partial(self._look, now_ns))
            self._govern(now_ns)
        self._ask(
            [each for each in self._processes.values() if not each.holds_up], self._note_title
        )
        self._bounded.close()

    def _patience_s(self, now_ns: int) -> float:
        """Return until when nothing is to be done, unless a process comes."""
        times_ns = [process.due_ns for process in self._processes.values()]
        if self._calls is not None:
            times_ns.append(self._next_govern_ns)
        return max(min(times_ns, default=now_ns + _LONGEST_NS) - now_ns, _SHORTEST_NS) / 1e9

    def _due(self, now_ns: int) -> list[Process]:
        """Return those that are to be looked at now; nothing is asked of one that held us up."""
        due = [each for each in self._processes.values() if now_ns >= each.due_ns]
        for process in due:
            if process.holds_up:
                process.rest(now_ns)
                if not is_running(process.pid):
                    self._forget(process)
        return [process for process in due if not process.holds_up]

    def _ask(self, processes: list[Process], question: Callable[[Process], None]) -> list[Process]:
        """Ask something of processes; return those left out, as one before them held us up.

        All in one go: to have another thread ask costs more than most of what is asked.
        """
        asked: list[Process] = []
        try:
            self._bounded.call(partial(_ask_each, processes, asked, question))
        except HeldUpError:
            # Not even one, where too many threads have been left behind.
            answered = max(len(asked) - 1, 0)
            self._note_held_up(processes[answered])
            return processes[answered + 1 :]
        return []

    def _note_held_up(self, process: Process) -> None:
        process.holds_up = True
        if self._calls is not None:
            self._calls.note_held_up()
        self._log.append("held_up", pid=process.pid, ts_ns=time.monotonic_ns())

    def _note_title(self, process: Process) -> None:
        """Note what ps shows of it, if that is another text than before: it may rename itself."""
        title = title_of(process.pid, is_served=process.is_served)
        if title is not None and title != process.title:
            process.title = title
            self._log.append("title", pid=process.pid, ts_ns=time.monotonic_ns(), title=title)

    def _wait(self, patience_s: float) -> None:
        """Wait for a new process, or the end. Not in C++: Python may end while we wait."""
        waiting = select.poll()
        if self._drain is not None:
            waiting.register(self._drain.new_pids_fd, select.POLLIN)
        waiting.poll(patience_s * 1000)

    def _meet_new(self) -> None:
        if self._drain is None:
            return
        for pid in self._drain.take_new_pids():
            if pid not in self._processes:
                self._processes[pid] = Process(pid, is_new=True)
        # In a pid namespace of ours the numbers are others: at worst we look once too often.
        for pid in self._drain.take_replaced_pids():
            if pid in self._processes:
                self._processes[pid].look_soon()

    def _look(self, now_ns: int, process: Process) -> None:
        """Attach what has come since the last look; a process that has ended is forgotten."""
        if self._stop.is_set():
            return
        self._note_title(process)
        try:
            changed = self._read_mappings(process, now_ns)
            if self._calls is not None and process.interpreter is not None:
                self._calls.look(process, now_ns, changed=changed)
            if self._cuda is not None:
                self._cuda.look(process, now_ns, changed=changed)
        except HeldUpError:
            raise
        except OSError:
            go_on()
            if self._stop.is_set():
                # Cancelled: whether the process has ended is not known from that.
                return
            if is_running(process.pid):
                # In the middle of an exec, or its memory is closed to us for now.
                process.begin_again(now_ns)
                return
            self._forget(process)

    def _forget(self, process: Process) -> None:
        """Take a process for ended: another one may get its pid."""
        if self._processes.pop(process.pid, None) is not None:
            self._gone_cpu_ns += process.cpu_ns

    def _read_mappings(self, process: Process, now_ns: int) -> bool:
        """Learn what it has mapped, unless nothing can have changed; tell whether it did."""
        process.note_program(address_space(process.pid))
        if not process.has_to_be_read(now_ns):
            process.rest(now_ns)
            return False
        scan = _capture.PythonScan(process.pid)
        changed = process.update(scan.mappings(), now_ns)
        process.is_served = scan.is_served
        if process.has_lost_its_interpreter():
            process.interpreter = None
        if changed and not process.has_other_clock and has_other_clock(process.pid):
            process.has_other_clock = True
            self._log.append("other_clock", pid=process.pid, ts_ns=time.monotonic_ns())
        if changed and process.finds_nvtx_package():
            self._log.append("nvtx_package", pid=process.pid, ts_ns=time.monotonic_ns())
        if changed and process.interpreter is None:
            self._find_python(process, scan)
        return changed

    def _find_python(self, process: Process, scan: _capture.PythonScan) -> None:
        runtime = scan.runtime()
        if runtime is None:
            if not process.is_reported:
                self._log.append("no_python", pid=process.pid, ts_ns=time.monotonic_ns())
            process.is_reported = True
            return
        for mapping in process.mappings:
            if mapping[0] == runtime["module_path"]:
                process.interpreter = (mapping[1], mapping[2])
        self._tell(process, runtime)
        if self._sampler is not None and runtime["implementation"] == "cpython":
            self._sampler.note_python(process.pid, runtime)
        if self._calls is not None and self._settings.gil == "full" and process.interpreter:
            offsets = scan.exported(runtime["module_path"], [*GIL_RELEASES, *GIL_TAKES])
            self._calls.attach_gil(process, process.interpreter, offsets)

    def _tell(self, process: Process, runtime: dict[str, Any]) -> None:
        self._log.append(
            "python", pid=process.pid, ts_ns=time.monotonic_ns(),
            **{name: value for name, value in runtime.items() if name != "symbols"},
        )  # fmt: skip

    def _govern(self, now_ns: int) -> None:
        if self._calls is None or now_ns < self._next_govern_ns:
            return
        self._next_govern_ns = now_ns + _GOVERN_NS
        cpu_ns = self._gone_cpu_ns
        for process in self._processes.values():
            process.cpu_ns = cpu_time_ns(process.pid) or process.cpu_ns
            cpu_ns += process.cpu_ns
        self._calls.govern(now_ns, cpu_ns)


def _ask_each(
    processes: Iterable[Process], asked: list[Process], question: Callable[[Process], None]
) -> None:
    """Ask one after the other; the last one asked is the one that holds us up."""
    for process in processes:
        go_on()
        asked.append(process)
        question(process)


def words(error: OSError) -> str:
    """Return what an OSError says, on one line."""
    return " ".join(str(error.args[1] if len(error.args) > 1 else error).split())
