"""Taking a calibration: by the command, and by itself after the first recording on a machine."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rlscope_analysis.sentences import reason_sentence
from rlscope_trace.cli import messages
from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.signals import interrupt_if_held, signals_interrupt
from rlscope_trace.spool.directory import CALIBRATION_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlscope_trace.record.calibrate.cache import Calibration
    from rlscope_trace.record.calibrate.measure import Plan
    from rlscope_trace.spool.costs import Cost

_CHECKS = 2
_LATER = "rlscope-trace calibrate TRACE adds it to the trace"


def take(directory: Path, key: dict[str, str]) -> Calibration:
    """Measure everything and keep it; the error of `record` where nothing can be traced here."""
    from rlscope_trace.record.calibrate.measure import FULL

    _require_tracing()
    messages.say("measuring what recorded events cost; this takes half a minute")
    with signals_interrupt():
        taken = _measure(FULL, key, "full")
    if taken.is_empty:
        raise TracerError(
            f"no cost could be measured: {_first_reason(taken)}", hint="rlscope-trace doctor"
        )
    _keep(directory, taken)
    return taken


def _first_reason(taken: Calibration) -> str:
    """Return why the first of the events has no cost."""
    if not taken.costs:
        return "no events"
    found = taken.costs[0].quality
    return reason_sentence(found.code, found.subject, found.detail, found.numbers)


def add_to_spool(spool: Path, *, wanted: bool, target_runs: Callable[[], bool]) -> None:
    """Put the costs on this machine into a spool that is complete; take them where none are known.

    target_runs: whether a process that was traced still runs. Then nothing is measured beside it:
    it would be slowed, and would disturb the measurement.

    Nothing that goes wrong here costs the recording: then its trace says that the costs were not
    measured. Ctrl-C, TERM and HUP skip the measurement.
    """
    try:
        with signals_interrupt():
            calibration = _known_or_taken(wanted=wanted, target_runs=target_runs)
            if calibration is not None:
                from rlscope_trace.record.calibrate.cache import write_whole

                write_whole(spool / CALIBRATION_FILE, calibration.text())
    except KeyboardInterrupt:
        messages.note(f"calibration skipped; {_LATER}")
    except Exception as error:  # noqa: BLE001 - a defect of ours, too, must not cost the recording
        messages.warning(f"no calibration: {reason_of(error)}", _LATER)


def _known_or_taken(*, wanted: bool, target_runs: Callable[[], bool]) -> Calibration | None:
    from rlscope_trace.record.calibrate import cache

    directory, key = cache.cache_directory(), cache.machine_key()
    known, reason = cache.load(directory, key)
    if reason:
        messages.note(f"{reason}; measuring again" if wanted else reason)
    if known is not None:
        may_measure = wanted and not target_runs()
        return _held_to_now(directory, known) if may_measure else _as_held(directory, known)
    if not wanted:
        return None
    if target_runs():
        messages.note(
            "the target still runs: what recording costs is not measured beside it, and times are"
            f" not corrected yet; when it has ended, {_LATER}"
        )
        return None
    from rlscope_trace.record.calibrate.measure import SHORT

    messages.say(
        "first trace with this OS kernel: measuring what recording costs, about 10 s;"
        " Ctrl-C or --no-calibrate skips that"
    )
    taken = _measure(SHORT, key, "short")
    if taken.is_empty:
        # Not kept: whatever it was may be over the next time.
        messages.warning(f"no calibration: {_first_reason(taken)}", _LATER)
        return taken
    _keep(directory, taken)
    # Now, while nobody waits for what it would disturb.
    return _held_to_now(directory, taken)


def is_good(directory: Path, known: Calibration) -> bool:
    """Tell whether a calibration agrees with short ones of now, or did since the boot.

    The error of `record` where nothing can be traced here.
    """
    from rlscope_trace.record.calibrate import cache, check

    _require_tracing()
    held = cache.checked(directory, known) or _check(directory, known)
    return not check.contradicted(held.costs)


def _held_to_now(directory: Path, known: Calibration) -> Calibration:
    """Return a calibration with what contradicts it; whatever happens, as it is at least."""
    from rlscope_trace.record.calibrate import cache

    try:
        if cache.checked(directory, known) is None:
            return _reported(_check(directory, known))
    except KeyboardInterrupt:
        messages.note("the calibration was not checked")
    except Exception as error:  # noqa: BLE001 - what is known is good until it is contradicted
        messages.note(f"the calibration was not checked: {reason_of(error)}")
    return _as_held(directory, known)


def _as_held(directory: Path, known: Calibration) -> Calibration:
    """Return a calibration with what contradicted it since the boot, as far as anybody looked."""
    from rlscope_trace.record.calibrate import cache

    return _reported(cache.checked(directory, known) or known)


def _reported(held: Calibration) -> Calibration:
    from rlscope_trace.record.calibrate import check

    if events := check.contradicted(held.costs):
        messages.warning(
            f"the calibration contradicts other measurements: {', '.join(events)}",
            "rlscope-trace calibrate --force",
        )
    return held


def _check(directory: Path, known: Calibration) -> Calibration:
    """Hold a calibration to short ones of now, and keep the outcome."""
    from rlscope_trace.record.calibrate import check
    from rlscope_trace.record.calibrate.measure import CHECK

    messages.say("checking the calibration of this machine, about 3 s; Ctrl-C skips that")
    costs = known.costs
    # One alone may have been disturbed.
    for _ in range(_CHECKS):
        with signals_interrupt():
            again = _measure(CHECK, {}, "check").costs
        times = check.factor(known.costs, again)
        if times is None:
            messages.note("the calibration was not checked: too little could be measured again")
            return known
        costs = check.doubted(known.costs, again) if check.is_contradicted(times) else known.costs
        if costs is known.costs:
            break
    _note_checked(directory, known, costs)
    return replace(known, costs=costs)


def _measure(plan: Plan, key: dict[str, str], extent: str) -> Calibration:
    from rlscope_trace.cli.live_progress import live_progress
    from rlscope_trace.record.calibrate.cache import Calibration
    from rlscope_trace.record.calibrate.measure import measure

    start_s = time.monotonic()
    with live_progress() as bar:
        task = bar.add_task("calibrating", total=plan.limit_s)

        def tell(done: float, total: float) -> None:
            interrupt_if_held()
            bar.update(task, completed=done, total=total)

        costs = measure(plan, tell)
    facts: dict[str, object] = {
        "key": key,
        "extent": extent,
        "taken": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "duration_s": round(time.monotonic() - start_s, 1),
        "load": round(os.getloadavg()[0], 2),
    }
    return Calibration(costs, facts)


def _keep(directory: Path, taken: Calibration) -> None:
    from rlscope_trace.record.calibrate.cache import DIRECTORY_VARIABLE, save

    try:
        save(directory, taken)
    except OSError as error:
        messages.warning(
            f"the calibration cannot be kept in {directory}: {error.strerror}",
            f"{DIRECTORY_VARIABLE}=FOLDER names another place",
        )


def _note_checked(directory: Path, known: Calibration, costs: list[Cost]) -> None:
    from rlscope_trace.record.calibrate.cache import DIRECTORY_VARIABLE, note_checked

    try:
        note_checked(directory, known, costs)
    except OSError as error:
        messages.warning(
            f"each recording checks the calibration again: what that finds cannot be kept in"
            f" {directory}: {error.strerror}",
            f"{DIRECTORY_VARIABLE}=FOLDER names another place",
        )


def _require_tracing() -> None:
    """Raise what `record` raises where no programs can be loaded."""
    from rlscope_trace.record.backends import NothingWorksError, best_backend
    from rlscope_trace.record.preflight import explain_failure

    try:
        best_backend()
    except NothingWorksError as error:
        raise explain_failure(str(error), argv=sys.argv[1:]) from error
