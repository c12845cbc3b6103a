"""What automatic phases lack in the target, as rows of table coverage.

That is adapters that failed, libraries without an adapter, and all phases where none can be found.

The target tells each by a mark: failures.py and absence.py of cupti/python/rlscope_phases.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.vocabulary import PHASES_COVERAGE
from rlscope_trace.ingest.store.gil_ranges import life_of
from rlscope_trace.ingest.store.processes import Life
from rlscope_trace.ingest.writer.coverages import KindCoverage
from rlscope_trace.phase_status import absence_fact

# As in failures.py: what such a mark begins with, and how many kinds of them a process tells.
_PREFIX = "adapter failed"
_NO_ROW = "no row"
# As in absence.py.
_NO_PHASES = "no phases"
_OTHERS = "others"
_MAX_KINDS = 32 + 1
# All failures that are kept: the program can tell without end.
_MAX_FAILURES = 1 << 16


class PhaseFailure(NamedTuple):
    """What an adapter could not do, as one process reported it."""

    adapter: str
    """The module of the library that it belongs to."""
    error: str
    """The type of the exception."""
    message: str
    """The first line of what it said."""


class PhaseFailures:
    """The failures of one recording."""

    def __init__(self) -> None:
        self._reported: list[tuple[int, int, PhaseFailure]] = []
        self.left_out = 0
        """Failures beyond the first _MAX_FAILURES."""

    def add(self, pid: int, ts_ns: int, text: str) -> None:
        """Take the text of a mark in the domain of the phases."""
        prefix, *fields = text.split("\t")
        if prefix == _NO_PHASES and fields:
            fields = [_NO_PHASES, _NO_PHASES, "\t".join(fields)]
        elif prefix == _NO_ROW and len(fields) == 1:
            fields = [*fields, _NO_ROW, ""]
        elif prefix != _PREFIX or len(fields) != 3:
            return
        if len(self._reported) < _MAX_FAILURES:
            self._reported.append((pid, ts_ns, PhaseFailure(*fields)))
        else:
            self.left_out += 1

    def coverages(self, lives: Sequence[Life]) -> Iterator[KindCoverage]:
        """Yield what is to be said of each process that lacks phases."""
        for process_id, failures in self._by_process(lives).items():
            counts = Counter(failures).most_common(_MAX_KINDS)
            facts = tuple(_fact(failure, count) for failure, count in counts)
            has_phases = not any(failure.error == _NO_PHASES for failure in failures)
            yield KindCoverage(process_id, PHASES_COVERAGE, has_phases, facts)

    def _by_process(self, lives: Sequence[Life]) -> dict[int, list[PhaseFailure]]:
        """Return by process_id what failed in it, and in its parents before they forked it."""
        reported: dict[int, list[tuple[int, PhaseFailure]]] = {}
        for pid, ts_ns, failure in self._reported:
            life = life_of(lives, pid, ts_ns)
            if life is not None:
                reported.setdefault(life.process_id, []).append((ts_ns, failure))
        for life in lives if reported else ():
            before = reported.get(life.parent_process_id, []) if not life.exec_ns else []
            inherited = [(ts_ns, failure) for ts_ns, failure in before if ts_ns < life.first_ns]
            if inherited:
                reported[life.process_id] = inherited + reported.get(life.process_id, [])
        return {
            process_id: [failure for _, failure in failures]
            for process_id, failures in reported.items()
        }


def _fact(failure: PhaseFailure, count: int) -> Fact:
    if failure.error == _NO_PHASES:
        return absence_fact(failure.message)
    if failure.error == _NO_ROW:
        return Fact("phase_library_unknown", failure.adapter)
    if failure.adapter == _OTHERS:
        return Fact("more_phase_adapters", count=count)
    said = f"{failure.error}: {failure.message}" if failure.message else failure.error
    code = "phase_adapter_failed_once" if count == 1 else "phase_adapter_failed"
    return Fact(code, failure.adapter, said, count)
