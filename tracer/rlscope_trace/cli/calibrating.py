"""Taking a calibration: by the command, and by itself after the first recording on a machine."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rlscope_trace.cli import messages
from rlscope_trace.store.spool import CALIBRATION_FILE
from rlscope_trace.watch import interrupt_if_held, signals_interrupt

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.calibrate.cache import Calibration
    from rlscope_trace.calibrate.measure import Plan

_PROBE_RING_BYTES = 1 << 16


def take(directory: Path, key: dict[str, str]) -> Calibration:
    """Measure everything and keep it; the error of `record` where nothing can be traced here."""
    from rlscope_trace.calibrate.measure import FULL

    _require_tracing()
    messages.say("measuring what recorded events cost; this takes half a minute")
    with signals_interrupt():
        taken = _measure(FULL, key, "full")
    _keep(directory, taken)
    return taken


def add_to_spool(spool: Path, *, wanted: bool) -> None:
    """Put the costs on this machine into a spool that is complete; take them where none are known.

    Nothing that goes wrong here costs the recording: then its trace says that the costs were not
    measured. Ctrl-C, TERM and HUP skip the measurement.
    """
    try:
        with signals_interrupt():
            calibration = _known_or_taken(wanted=wanted)
            if calibration is not None:
                from rlscope_trace.calibrate.cache import write_whole

                write_whole(spool / CALIBRATION_FILE, calibration.text())
    except KeyboardInterrupt:
        messages.note("calibration skipped; rlscope-trace calibrate takes it before the next trace")
    except Exception as error:  # noqa: BLE001 - a defect of ours, too, must not cost the recording
        messages.warning(f"no calibration: {error}", "rlscope-trace calibrate")


def _known_or_taken(*, wanted: bool) -> Calibration | None:
    from rlscope_trace.calibrate import cache

    directory, key = cache.cache_directory(), cache.machine_key()
    known, reason = cache.load(directory, key)
    if reason:
        messages.note(f"{reason}; measuring again" if wanted else reason)
    if known is not None or not wanted:
        return known
    from rlscope_trace.calibrate.measure import SHORT

    messages.say(
        "first trace with this OS kernel: measuring what recording costs, about 10 s;"
        " Ctrl-C or --no-calibrate skips that"
    )
    taken = _measure(SHORT, key, "short")
    _keep(directory, taken)
    return taken


def _measure(plan: Plan, key: dict[str, str], extent: str) -> Calibration:
    from rlscope_trace.calibrate.cache import Calibration
    from rlscope_trace.calibrate.measure import measure
    from rlscope_trace.cli.live_progress import live_progress

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
    from rlscope_trace.calibrate.cache import DIRECTORY_VARIABLE, save

    try:
        save(directory, taken)
    except OSError as error:
        messages.warning(
            f"the calibration cannot be kept in {directory}: {error.strerror}",
            f"{DIRECTORY_VARIABLE}=FOLDER names another place",
        )


def _require_tracing() -> None:
    """Raise what `record` raises where no programs can be loaded."""
    from rlscope_trace.preflight import explain_failure
    from rlscope_trace.probes import NothingWorksError, open_capture

    try:
        open_capture(loader="libbpf", rung=None, ring_bytes=_PROBE_RING_BYTES)
    except NothingWorksError as error:
        raise explain_failure(str(error), argv=sys.argv[1:]) from error
