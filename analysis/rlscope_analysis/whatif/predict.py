"""What a change would do: the ratio of durations, its interval, its grade."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.background import background_apart
from rlscope_analysis.whatif.changes import Changes, Scaled, apply, mean_ns, rows_of
from rlscope_analysis.whatif.program import RUN, SLEEP, Program, make_program
from rlscope_analysis.whatif.team import of_team
from rlscope_analysis.wording import longer_words

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.whatif.read import Recorded

    Column = npt.NDArray[Any]

# A replay further from what was measured predicts nothing.
_WORST_FIDELITY = 0.10
_FIDELITY_A, _FIDELITY_B = 0.01, 0.03
_CONTENDED_A, _IDLE_BESIDE = 0.05, 0.20
_ALONE = 0.95
_GIL = 0.10
# The durations of iterations may differ so much, the first third against the last.
_DRIFT = 0.15
_UNEVEN = 0.05
# What an interval has in any case, and of the size of the change: docs/whatif.md says what it held.
_LEAST_WIDTH, _OF_CHANGE = 0.03, 0.12
_CONFIDENCE = 2.0
# A trace tells as much of what changes slowly as so many iterations that have nothing in common.
_INDEPENDENT = 4
_MOST_OPERATIONS = 8
_LEAST_SHARE = 0.01
_VARIANTS = tuple((pinned, rendezvous) for pinned in (True, False) for rendezvous in (True, False))


@dataclass(frozen=True, slots=True)
class Prediction:
    """New duration / old, with its 95 % interval; codes say why it has its grade."""

    duration_ratio: float
    low: float
    high: float
    grade: str
    """A, B, or C: a bound or a rough estimate."""
    reasons: tuple[str, ...]
    is_lower_bound: bool = False


class Replayer:
    """Predicts from one trace; the replay without a change is done once."""

    def __init__(self, recorded: Recorded) -> None:
        """Raise TraceError where the replay does not reproduce what was measured."""
        self.recorded = recorded
        program, lead = make_program(recorded), recorded.lead_thread_id
        self.program = background_apart(program, lead, recorded.duration_ns)
        self._pooled = background_apart(program, lead, recorded.duration_ns, has_pools=True)
        self._bases = {
            (pinned, rendezvous): self.program.duration_ns(
                is_pinned=pinned, is_rendezvous=rendezvous
            )
            for pinned, rendezvous in _VARIANTS
            # Nobody who launches something stays until the GPU has come to it.
            if recorded.gpu is None or not rendezvous
        }
        known = {variant: ns for variant, ns in self._bases.items() if ns > 0}
        if not known:
            raise TraceError(
                "cannot be answered: the replay of the trace stops before its end, since wake-ups"
                " are missing from it",
                hint="a longer or complete recording: sudo rlscope-trace -- COMMAND",
            )
        self._best = min(known, key=lambda variant: abs(self._error(variant)))
        self.fidelity = self._error(self._best)
        """The replay without a change / the measured duration, - 1."""
        if abs(self.fidelity) > _WORST_FIDELITY:
            raise TraceError(
                "cannot be answered: replayed without a change, the trace takes"
                f" {longer_words(self.fidelity)} than it did",
                hint="what the replay knows, and what it does not: docs/whatif.md",
            )

    def _error(self, variant: tuple[bool, bool]) -> float:
        return self._bases[variant] / self.recorded.duration_ns - 1

    def predict(self, changes: Changes) -> Prediction:
        """Predict what changes would do. Raises TraceError where that cannot be answered."""
        self._refuse(changes)
        changed = apply(changes, self.recorded, self.program)
        if changes.workers == 0:
            return self._in_one_process(changed)
        if changes.workers is not None:
            return self._bound(changes, changed)
        ratios = self._ratios(changes, changed)
        if changes.threads is not None:
            # Others take a CPU from fewer threads as often as before, or hardly ever.
            alone = self._ratios(changes, changed.undisturbed())
            ratios = {way: (*found, *alone.get(way, found)) for way, found in ratios.items()}
        ratio = float(np.exp(np.mean(np.log(np.maximum(ratios[self._best], 1e-9)))))
        spread = [one for found in ratios.values() for one in found]
        spread += self._pooled_ratios(changes)
        margin = self._margin(ratio)
        for one in changes.replaced:
            rows = rows_of(one.operation, self.recorded, self.program)
            now_ns = self.program.length_ns[rows].sum()
            each_ns = mean_ns(one.operation, rows, self.recorded, self.program)
            margin += _CONFIDENCE * one.stderr_ns * now_ns / each_ns / self.recorded.duration_ns
        for many in changes.vectorised:
            spent_ns = many.time_ns(self.recorded.environment_steps)
            margin += many.off * spent_ns / self.recorded.duration_ns
        if changes.threads is not None:
            margin += _CONFIDENCE * of_team(changes.threads, self.recorded, self.program)[1]
        grade, reasons = self._grade(changes)
        return Prediction(
            ratio, max(0.0, min(spread) - margin), max(spread) + margin,
            grade, reasons,
        )  # fmt: skip

    def _ratios(
        self, changes: Changes, changed: Program
    ) -> dict[tuple[bool, bool], tuple[float, ...]]:
        """Return new duration / old by the way of replaying.

        On fewer CPUs there are two: threads wake up as slowly as before, or at once.
        """
        fewer = changes.cpus is not None and changes.cpus < changed.cpus
        ratios = {}
        for (pinned, rendezvous), base in self._bases.items():
            if base <= 0 or abs(self._error((pinned, rendezvous))) > _WORST_FIDELITY:
                continue
            found = [
                changed.duration_ns(
                    cpus=changes.cpus, is_pinned=pinned, is_rendezvous=rendezvous, is_prompt=prompt
                )
                for prompt in ((False, True) if fewer else (False,))
            ]
            if min(found) >= 0:
                ratios[pinned, rendezvous] = tuple(ns / base for ns in found)
        if self._best not in ratios:
            raise TraceError(
                "cannot be answered: with this change the replay stops before its end",
                hint="a longer recording may hold the wake-ups that are missing",
            )
        return ratios

    def _pooled_ratios(self, changes: Changes) -> tuple[float, ...]:
        """Return the ratio where pools of threads take messages: the trace does not tell of them.

        None where that makes no difference, or does not reproduce the trace.
        """
        if len(self._pooled.first_item) == len(self.program.first_item):
            return ()
        pinned, rendezvous = self._best
        now_ns = self._pooled.duration_ns(is_pinned=pinned, is_rendezvous=rendezvous)
        changed = apply(changes, self.recorded, self._pooled)
        ns = changed.duration_ns(cpus=changes.cpus, is_pinned=pinned, is_rendezvous=rendezvous)
        if ns < 0 or abs(now_ns / self.recorded.duration_ns - 1) > _WORST_FIDELITY:
            return ()
        return (ns / now_ns,)

    def waiting_share(self, operation: str) -> float:
        """Return how much of an operation waits for other threads: no change of it shortens that.

        Raises TraceError where there is none called so.
        """
        rows, asleep = rows_of(operation, self.recorded, self.program), self.recorded.asleep
        own_ns = float(self.program.length_ns[rows].sum())
        own_sleeps_ns = float(self.program.length_ns[rows & (self.program.kind == SLEEP)].sum())
        inside = np.isin(asleep["path_id"], self.recorded.paths_of[operation])
        inside &= np.isin(asleep["thread_id"], self.program.thread_id[rows])
        waited_ns = float((asleep["end_ns"] - asleep["start_ns"])[inside].sum()) - own_sleeps_ns
        return max(0.0, waited_ns) / max(1.0, own_ns + waited_ns)

    def ranked(self) -> list[tuple[Changes, Prediction]]:
        """Predict what each of the largest operations twice as fast would do, and one CPU more.

        Raises TraceError where none of it can be answered: why the first cannot.
        """
        program, found = self.program, []
        bursts = program.kind == RUN
        total = program.length_ns[bursts].sum()
        for operation, paths in self.recorded.paths_of.items():
            rows = bursts & np.isin(program.path_id, paths)
            if program.length_ns[rows].sum() >= _LEAST_SHARE * total:
                found.append((program.length_ns[rows].sum(), operation))
        found = sorted(found, reverse=True)[:_MOST_OPERATIONS]
        asked = [Changes((Scaled(operation, 0.5),)) for _, operation in found]
        asked.append(Changes(workers=0))
        if program.runnable_ns > _CONTENDED_A * self.recorded.duration_ns:
            asked.append(Changes(cpus=program.cpus + 1))
        attempts = [(changes, self._attempt(changes)) for changes in asked]
        answers = [(changes, one) for changes, one in attempts if isinstance(one, Prediction)]
        refused = [one for _, one in attempts if isinstance(one, TraceError)]
        if not answers and not found:
            raise TraceError(
                "no operation is known that could be changed",
                hint="mark the parts of the program as NVTX ranges: docs/operations.md"
                if self.recorded.has_states
                # What a profiler of GPUs has written down gets no more of them.
                else "record the program, which finds its phases: sudo rlscope-trace -- COMMAND",
            )
        if not answers:
            raise refused[0]
        return sorted(answers, key=lambda pair: pair[1].duration_ratio)

    def _attempt(self, changes: Changes) -> Prediction | TraceError:
        try:
            return self.predict(changes)
        except TraceError as error:
            return error

    def _refuse(self, changes: Changes) -> None:
        beside = self.program.idle_beside_ns / self.recorded.duration_ns
        if changes.cpus is not None and beside > _IDLE_BESIDE:
            raise TraceError(
                f"cannot be answered: threads waited for {100 * beside:.0f} % of the time for a CPU"
                " that ran none of the trace, so that more or fewer CPUs tell nothing",
                hint="record it where nothing else runs",
            )
        if changes.cpus is not None and not self.recorded.has_states:
            raise TraceError(
                "cannot be answered: the trace does not tell which thread had a CPU when",
                hint="record it with: sudo rlscope-trace -- COMMAND",
            )
        waited = self.recorded.gil_wait_ns / self.recorded.duration_ns
        if waited > _GIL and changes != Changes():
            raise TraceError(
                "cannot be answered: threads of the leading process wait for the GIL for"
                f" {100 * waited:.0f} % of the time, and what a change does to such waits is not"
                " known",
                hint="rlscope-trace summarize TRACE --view gil",
            )

    def _margin(self, ratio: float) -> float:
        durations = self.recorded.durations_ns
        # Others on the machine slow a program down for seconds: iterations are not independent.
        count = min(len(durations), _INDEPENDENT)
        noise = float(np.std(durations) / np.mean(durations) / sqrt(count))
        return (
            ratio * (_LEAST_WIDTH + abs(self.fidelity) + _CONFIDENCE * noise)
            + _OF_CHANGE * abs(1 - ratio)
        )  # fmt: skip

    def _grade(self, changes: Changes) -> tuple[str, tuple[str, ...]]:
        program, duration_ns = self.program, self.recorded.duration_ns
        bursts = program.kind == RUN
        mine = program.length_ns[bursts & self._of_lead(program)].sum()
        is_alone = mine >= _ALONE * program.length_ns[bursts].sum()
        below_b = {
            "cpus_changed": changes.cpus is not None,
            "poor_fidelity": abs(self.fidelity) > _FIDELITY_B,
            "runnable_while_idle": program.idle_beside_ns > _IDLE_BESIDE * duration_ns,
            "not_stationary": self.is_drifting,
            "no_iterations": self.recorded.is_whole,
            "removed": any(not one.factor for one in changes.scaled) or changes.kernels == 0,
            "graph_assumed": bool(changes.graphs),
            "threads_scaled": changes.threads is not None,
            "vectorised": bool(changes.vectorised),
            "overlapped": changes.overlap is not None,
            "no_states": not self.recorded.has_states,
        }
        reasons = tuple(code for code, holds in below_b.items() if holds)
        if reasons:
            return "C", reasons
        below_a = {
            "probed": bool(changes.replaced),
            "uneven": float(np.std(self.recorded.durations_ns))
            > _UNEVEN * float(np.mean(self.recorded.durations_ns)),
            "several_processes": not is_alone,
            "fair_fidelity": abs(self.fidelity) > _FIDELITY_A,
            "contended": program.runnable_ns > _CONTENDED_A * duration_ns,
        }
        reasons = tuple(code for code, holds in below_a.items() if holds)
        return ("B" if reasons else "A"), reasons

    @property
    def is_drifting(self) -> bool:
        """Whether late iterations last longer or shorter than early ones."""
        durations = self.recorded.durations_ns
        third = len(durations) // 3
        if not third:
            return False
        early, late = np.median(durations[:third]), np.median(durations[-third:])
        return bool(abs(late - early) > _DRIFT * early)

    def _bound(self, changes: Changes, changed: Program) -> Prediction:
        """Return the least that iterations with N workers, each as now, take."""
        workers = self._workers(changed)
        if not workers:
            raise TraceError(
                "cannot be answered: the trace has no worker processes",
                hint="rlscope-trace summarize TRACE --view processes",
            )
        bursts = changed.kind == RUN
        mine = self._of_lead(changed)
        grown = (changes.workers or 1) / len(workers)
        led = changed.length_ns[bursts & (changed.thread_id == self.recorded.lead_thread_id)].sum()
        own = float(changed.length_ns[bursts & mine].sum())
        theirs = sum(sum(threads) for threads in workers)
        cpus = changes.cpus or max(changed.cpus, self.recorded.allowed_cpus)
        # With fewer workers the leading process has less to do as well.
        least = max(
            float(led) * min(1.0, grown), (own * min(1.0, grown) + theirs * grown) / cpus,
            # Threads of a worker run at the same time.
            min(max(threads) for threads in workers) * min(1.0, grown),
        )  # fmt: skip
        ratio = least / self.recorded.duration_ns
        return Prediction(ratio, ratio, float("inf"), "C", ("bound",), is_lower_bound=True)

    def _in_one_process(self, changed: Program) -> Prediction:
        """Return what iterations take in which the leading process steps all environments itself.

        One after the other, at least without anything that workers and messages cost; at most with
        all that both sides run for them now.
        """
        rows = rows_of("simulation", self.recorded, changed)
        mine, length = self._of_lead(changed), changed.length_ns
        if (rows & mine).any():
            raise TraceError(
                "cannot be answered: the trace has no worker processes that step environments",
                hint="rlscope-trace summarize TRACE --view processes",
            )
        runs, takes = changed.kind == RUN, np.isin(changed.kind, (RUN, SLEEP))
        led = takes & (changed.thread_id == self.recorded.lead_thread_id)
        asked = np.isin(changed.path_id, self.recorded.paths_of["simulation"])
        theirs = runs & ~rows & np.isin(changed.thread_id, np.unique(changed.thread_id[rows]))
        least = float(length[led & ~asked].sum() + length[rows & takes].sum())
        most = least + float(length[led & asked].sum() + length[theirs].sum())
        low, high = (ns / self.recorded.duration_ns for ns in (least, most))
        ratio = sqrt(low * high)
        margin = self._margin(ratio)
        return Prediction(ratio, max(0.0, low - margin), high + margin, "C", ("one_process",))

    def _workers(self, changed: Program) -> list[list[float]]:
        """Return of each worker process how long its threads run."""
        theirs = (changed.kind == RUN) & ~self._of_lead(changed)
        threads, place = np.unique(changed.thread_id[theirs], return_inverse=True)
        sums = np.bincount(place, changed.length_ns[theirs], len(threads))
        found: dict[int, list[float]] = {}
        for thread, ns in zip(threads.tolist(), sums.tolist(), strict=True):
            found.setdefault(self.recorded.process_of[thread], []).append(ns)
        # Helpers of multiprocessing hardly run.
        most = max((sum(ran) for ran in found.values()), default=0.0)
        return [ran for ran in found.values() if sum(ran) > 0.1 * most]

    def _of_lead(self, program: Program) -> Column:
        owners = self.recorded.process_of.items()
        lead = [thread for thread, process in owners if process == self.recorded.lead_process_id]
        mine: Column = np.isin(program.thread_id, lead)
        return mine
