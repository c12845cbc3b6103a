"""The small files of a spool and what /proc says, by the first byte of the input."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import atheris
from python_target import run, work_folder

with atheris.instrument_imports(include=["rlscope_trace"]):
    from rlscope_trace.errors import SpoolError
    from rlscope_trace.ingest.store.probe_facts import read_probe_facts
    from rlscope_trace.privileges import parse_environ, parse_parent
    from rlscope_trace.spool.costs import read_costs
    from rlscope_trace.spool.counter_file import CounterLines, read_counter_file
    from rlscope_trace.spool.directory import open_spool

if TYPE_CHECKING:
    from collections.abc import Callable

from spool_builder import SpoolBuilder

_FOLDER = work_folder("sidecars")
_FILE = _FOLDER / "file"
_SPOOL = _FOLDER / "spool"


def _counters(data: bytes) -> None:
    _FILE.write_bytes(data)
    lines = CounterLines()
    for position, ts_ns, name, value in read_counter_file(_FILE, lines):
        assert 0 <= position < len(lines.devices)
        assert isinstance(ts_ns, int)
        assert isinstance(name, str)
        assert isinstance(value, float)


def _probes(data: bytes) -> None:
    _FILE.write_bytes(data)
    facts = read_probe_facts(_FILE)
    assert facts.damaged_lines <= data.count(b"\n") + 1


def _calibration(data: bytes) -> None:
    _FILE.write_bytes(data)
    try:
        costs, _facts = read_costs(_FILE)
    except ValueError:
        return
    for cost in costs:
        # What goes into the trace.
        for text in (cost.quality.code, cost.quality.subject, cost.quality.detail):
            (text or "").encode()


def _session(data: bytes) -> None:
    (_SPOOL / "session.json").write_bytes(data)
    open_spool(_SPOOL).is_live()


def _progress(data: bytes) -> None:
    (_SPOOL / "session.json").write_bytes(b"{}")
    (_SPOOL / "progress.bin").write_bytes(data)
    progress = open_spool(_SPOOL).progress
    assert progress is None or 0 <= progress.end_ns < 2**63


def _records(data: bytes) -> None:
    folder = _FOLDER / "other"
    folder.mkdir(exist_ok=True)
    (folder / "records.bin").write_bytes(data)
    with contextlib.suppress(SpoolError):
        open_spool(folder)


def _stat(data: bytes) -> None:
    try:
        name, parent = parse_parent(data.decode(errors="surrogateescape"))
    except (ValueError, IndexError):
        return
    assert isinstance(name, str)
    assert isinstance(parent, int)


def _environ(data: bytes) -> None:
    variables = parse_environ(data)
    assert "" not in variables


_READERS: tuple[Callable[[bytes], None], ...] = (
    _counters, _probes, _calibration, _session, _progress, _records, _stat, _environ,
)  # fmt: skip


def target(data: bytes) -> None:
    """Read the input as one of the files."""
    if data:
        _READERS[data[0] % len(_READERS)](data[1:])


if __name__ == "__main__":
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.write(_SPOOL, end_ns=200)
    run(target)
