"""From a complete spool to a saved trace, with a progress bar, and the words that end a session."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rlscope_analysis.derive import complete
from rlscope_analysis.errors import TraceError
from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.overview.answer import overview, verdict
from rlscope_analysis.schema.vocabulary import PHASES_COVERAGE
from rlscope_analysis.sentences import fact_sentence, facts_of, loss_sentence
from rlscope_analysis.summary.gpu import gpu_note, gpu_summary
from rlscope_analysis.trace import open_trace
from rlscope_analysis.trace_file import MEMORY_VARIABLE
from rlscope_trace.cli import messages
from rlscope_trace.cli.live_progress import live_progress
from rlscope_trace.ingest.store.finalise import finalise
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rich.progress import Progress

    from rlscope_analysis.summary.gpu import GpuSummary
    from rlscope_trace.ingest.writer.trace_stats import TraceStat
    from rlscope_trace.ingest.writer.trace_writer import TraceReport, TraceWriter
    from rlscope_trace.spool.directory import Spool

# So many kinds of losses are shown: more than any recording has that nobody damaged.
_SHOWN_LOSSES = 20
# Less of these is nothing to do anything about: some are in every recording of many threads.
_USUAL, _FEW = frozenset({"switch_in_unseen", "wakeup_unseen"}), 0.01
# The path of so many takes 2 s.
_VERDICT_STATES = 2_000_000
_VERDICT_MEMORY = "128MB"
# Beyond that it takes more than that, and a recorder promises 300 MB (docs/cost.md).
_VERDICT_THREADS = 5_000
_PHASE_FAILURES_SQL = """
SELECT DISTINCT
  measured, {'code': code, 'subject': subject, 'detail': detail, 'count': count} AS fact
FROM coverage WHERE kind = ? ORDER BY measured, fact LIMIT 20
"""
_ABSENCE_HINT = "rlscope-trace doctor --python PYTHON"
_PHASE_HINT = (
    "rlscope-trace doctor --python PYTHON says which libraries phases are found in; --phases FILE"
    " adds your own"
)
_STEPS = {
    "scan": "reading the spool",
    "read": "reading",
    "sort": "sorting",
    "write": "writing the database",
    "operations": "nesting the operations",
    "gpu": "sorting what GPUs did",
    "derive": "working out the overlaps",
    "store": "storing",
    "verify": "verifying",
}


@dataclass(frozen=True, slots=True)
class Saved:
    """A trace that was saved."""

    report: TraceReport
    gpu: GpuSummary
    phases_absent: tuple[str, ...]
    """Why some processes have no phases."""
    phase_failures: tuple[str, ...]
    """Why phases of some processes are missing."""


def save_trace(spool: Spool, output: Path, *, overwrite: bool, mode: int) -> Saved:
    """Turn the spool into a verified trace database; the spool goes only when that has worked.

    Call it with second_interrupt_stops.
    """
    with progress_bar() as progress:
        made = finalise(spool, output, overwrite=overwrite, progress=progress, mode=mode)
        with made as trace:
            add_derived(trace)
            gpu = gpu_summary(lambda query: trace.con.execute(query).fetchall())
            failures = trace.con.execute(_PHASE_FAILURES_SQL, [PHASES_COVERAGE]).fetchall()
    absent = [row for has_phases, row in failures if not has_phases]
    incomplete = [row for has_phases, row in failures if has_phases]
    return Saved(trace.report, gpu, _sentences(absent), _sentences(incomplete))


def _sentences(rows: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(fact_sentence, facts_of(rows)))


def add_derived(trace: TraceWriter) -> None:
    """Add the views and the derived tables to a trace, and tell how far that is."""
    complete(trace.con, progress=partial(trace.progress, "derive"))


def report(saved: Saved) -> None:
    """Say what was written and what was lost: the last words of every session."""
    written, rows = saved.report, saved.report.rows
    messages.say(
        f"wrote {written.output}: {written.records:,} records, {rows['process']:,} processes,"
        f" {rows['thread']:,} threads, {rows['thread_state_coded']:,} thread states,"
        f" {written.file_bytes / 1e6:.1f} MB in {written.duration_s:.1f} s"
    )
    done = gpu_note(saved.gpu)
    if done is not None:
        messages.say(f"GPU: {sentence_of(done)}")
    for whose in saved.gpu.refused:
        messages.note(f"GPU activity was not recorded {sentence_of(whose)}")
    for absence in saved.phases_absent:
        messages.warning(absence, _ABSENCE_HINT)
    for failure in saved.phase_failures:
        messages.warning(f"automatic phases are incomplete: {failure}", _PHASE_HINT)
    _report_losses(written.losses, written.records)
    _report_verdict(written)


def _report_verdict(written: TraceReport) -> None:
    """Say what limits the program, where it has iterations and that takes no long time."""
    rows = written.rows
    if not rows["operation_coded"]:
        messages.say("no phase was found, and the program marks none")
    elif rows["thread_state_coded"] <= _VERDICT_STATES and rows["thread"] <= _VERDICT_THREADS:
        # The trace is saved: whoever does not want to wait for more may interrupt.
        with suppress(TraceError, OSError, MemoryError, KeyboardInterrupt):
            _say_verdict(written.output)
    messages.say(f"more: rlscope-trace summarize {shell_line([str(written.output)])}")


def _say_verdict(output: Path) -> None:
    # A recorder stays small, beside a program that needs the memory: what does not fit is sorted on
    # the disk, or left to summarize.
    os.environ.setdefault(MEMORY_VARIABLE, _VERDICT_MEMORY)
    with open_trace(output) as trace:
        reported = overview(trace)
        # Where that memory was too little there is none, and summarize says why.
        if reported.reason is None:
            messages.say(sentence_of(verdict(reported)))


def report_import(saved: TraceReport) -> None:
    """Say what was imported and what was not: the last words of every import."""
    rows = saved.rows
    messages.say(
        f"wrote {saved.output}: {saved.records:,} events, {rows['process']:,} processes,"
        f" {rows['thread']:,} threads, {rows['gpu_activity_coded']:,} GPU activities,"
        f" {saved.file_bytes / 1e6:.1f} MB in {saved.duration_s:.1f} s"
    )
    _report_losses(saved.losses, saved.records)


def _report_losses(losses: tuple[TraceStat, ...], records: int) -> None:
    for loss in losses[:_SHOWN_LOSSES]:
        count = "an unknown number of" if loss.count is None else f"{loss.count:,}"
        sentence, remedy = loss_sentence(loss.code, asdict(loss))
        said = f"{count} {loss.kind}: {sentence}"
        if loss.code in _USUAL and loss.count is not None and loss.count < _FEW * records:
            messages.note(said)
        else:
            messages.warning(said, remedy)
    more = len(losses) - _SHOWN_LOSSES
    if more > 0:
        messages.warning(f"and {more:,} more kinds of losses: table trace_stat has them all")
    if not losses:
        messages.say("nothing lost")


class ProgressBar:
    """One bar that goes through the steps of finalise."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def __call__(self, step: str, done: int, total: int) -> None:
        """Show a step and how much of it is done."""
        self._progress.update(
            self._task, description=_STEPS.get(step, step), completed=done, total=total
        )


@contextmanager
def progress_bar() -> Iterator[ProgressBar]:
    """Show a bar while something is saved, where stderr is a terminal."""
    with live_progress() as progress:
        yield ProgressBar(progress)
