"""What an Nsight Systems export says about the recording as a whole."""

import json
from dataclasses import dataclass

from rlscope_trace.importers.nsys_sqlite import NsysFile

_WARNING = 2
_MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Session:
    """One recording. Times of its export are ns, from an instant of its own."""

    realtime_at_zero_ns: int | None
    """Wall-clock time at time 0 of the export; None: not told."""
    start_ns: int
    """Time of the export when the recording began."""
    end_ns: int | None
    """Time of the export when it ended; None: not told."""
    host: str | None
    facts: dict[str, str]
    """For the meta table."""


def read_session(file: NsysFile) -> Session:
    """Read what the tables about the recording tell; all of them may be missing."""
    export = _pairs(file, "META_DATA_EXPORT")
    system = _pairs(file, "TARGET_INFO_SYSTEM_ENV")
    epochs = file.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    epoch_ns = next((int(value) for (value,) in epochs if isinstance(value, int)), None)
    durations = [value for (value,) in file.rows("ANALYSIS_DETAILS", ("duration",)) if value]
    # `nsys export --ts-shift` and `--ts-normalize` move every time.
    start_ns = _whole(export.get("EXPORT_PARAM_TIME_SHIFT")) or 0
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true" and epoch_ns is not None:
        start_ns += epoch_ns
    facts = {
        "nsys_version": export.get("EXPORT_PRODUCT_VERSION"),
        "nsys_schema": export.get("EXPORT_SCHEMA_VERSION"),
        "kernel": system.get("SoftwareReleaseVersion"),
        "cuda_driver": system.get("CudaDriverVersion"),
        "argv": _command_line(file),
        "nsys_diagnostics": _diagnostics(file),
    }
    return Session(
        realtime_at_zero_ns=None if epoch_ns is None else epoch_ns - start_ns,
        start_ns=start_ns,
        end_ns=start_ns + max(durations) if durations else None,
        host=system.get("Hostname"),
        facts={key: value for key, value in facts.items() if value},
    )


def _pairs(file: NsysFile, table: str) -> dict[str, str]:
    rows = file.rows(table, ("name", "value"))
    return {str(name): str(value) for name, value in rows if value is not None}


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None


def _command_line(file: NsysFile) -> str | None:
    """Return the launched program and its arguments as JSON; None if it was not launched."""
    capture = _pairs(file, "META_DATA_CAPTURE")
    command = capture.get("PROCESS_0:COMMAND")
    if not command:
        return None
    argv = [command]
    while (argument := capture.get(f"PROCESS_0:ARGUMENT_{len(argv) - 1}")) is not None:
        argv.append(argument)
    return json.dumps(argv)


def _diagnostics(file: NsysFile) -> str | None:
    """Return the warnings and errors of the recorder itself as JSON: they tell of lost events."""
    rows = file.rows("DIAGNOSTIC_EVENT", ("severity", "text"))
    texts = [str(text) for severity, text in rows if severity and severity >= _WARNING and text]
    return json.dumps(texts[:_MAX_DIAGNOSTICS]) if texts else None
