"""What an Nsight Systems export says about the recording as a whole."""

import json
from dataclasses import dataclass

from rlscope_trace.ingest.importers.nsys_sqlite import NsysFile

_WARNING = 2
# Of either sign 146 years: a difference of two times fits into 64 bits.
_MAX_TIME_NS = 1 << 62
_MAX_DIAGNOSTICS = 20


@dataclass(frozen=True, slots=True)
class Session:
    """One recording. Times of its export are ns, from an instant of its own."""

    realtime_at_zero_ns: int | None
    """Wall-clock time at time 0 of the export; None: not recorded."""
    start_ns: int
    """Time of the export when the recording began."""
    end_ns: int | None
    """Time of the export when it ended; None: not recorded."""
    host: str | None
    facts: dict[str, str]
    """For the meta table."""


def read_session(file: NsysFile) -> Session:
    """Read what the tables about the recording tell; all of them may be missing."""
    export = _pairs(file, "META_DATA_EXPORT")
    system = _pairs(file, "TARGET_INFO_SYSTEM_ENV")
    epoch_ns = _first_time(file, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    duration_ns = _first_time(file, "ANALYSIS_DETAILS", "duration")
    # `nsys export --ts-shift` and `--ts-normalize` move every time.
    start_ns = _whole(export.get("EXPORT_PARAM_TIME_SHIFT")) or 0
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true" and epoch_ns is not None:
        start_ns += epoch_ns
    facts = {
        "backends": _version(export),
        "kernel": system.get("SoftwareReleaseVersion"),
        "cuda_driver": system.get("CudaDriverVersion"),
        "argv": _command_line(file),
        "nsys_diagnostics": _diagnostics(file),
    }
    return Session(
        realtime_at_zero_ns=None if epoch_ns is None else epoch_ns - start_ns,
        start_ns=start_ns,
        end_ns=None if duration_ns is None else start_ns + duration_ns,
        host=system.get("Hostname"),
        facts={key: value for key, value in facts.items() if value},
    )


def _version(export: dict[str, str]) -> str:
    version = export.get("EXPORT_PRODUCT_VERSION", "of an unknown version")
    schema = export.get("EXPORT_SCHEMA_VERSION", "of an unknown version")
    return f"Nsight Systems {version}, schema {schema}"


def _first_time(file: NsysFile, table: str, column: str) -> int | None:
    """Return the first value that a time can have, None if there is none."""
    values = (value for (value,) in file.rows(table, **{column: int}))
    return next((v for v in values if v is not None and 0 < v < _MAX_TIME_NS), None)


def _pairs(file: NsysFile, table: str) -> dict[str, str]:
    rows = file.rows(table, name=str, value=str)
    return {name: value for name, value in rows if name is not None and value is not None}


def _whole(text: str | None) -> int | None:
    try:
        number = int(text) if text else None
    except ValueError:
        return None
    return number if number is None or abs(number) < _MAX_TIME_NS else None


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
    rows = file.rows("DIAGNOSTIC_EVENT", severity=int, text=str)
    texts = [text for severity, text in rows if severity and severity >= _WARNING and text]
    return json.dumps(texts[:_MAX_DIAGNOSTICS]) if texts else None
