"""The end of a recording: once the spool is complete nothing is added to it."""

from __future__ import annotations

import json
import resource
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

from rlscope_trace.record import session as session_module
from rlscope_trace.record.session import Session
from rlscope_trace.spool.directory import SESSION_FILE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HOUR_NS = 3600 * 10**9


def test_no_clock_record_comes_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0

    def each_look_is_an_hour_later() -> int:
        nonlocal now_ns
        now_ns += HOUR_NS
        return now_ns

    made: list[str] = []
    spool = MagicMock()
    spool.append_clock.side_effect = lambda: made.append("clock")
    spool.finish.side_effect = lambda **_: made.append("end")
    spool.counters.return_value = {"records": 7, "lost": 0, "bytes": 1, "write_error": 0}
    shims = SimpleNamespace(
        events=0, lost=0, is_full=False, stop=lambda: None, refused=Counter, sources=0
    )
    opened: Any = SimpleNamespace(
        capture=MagicMock(), loader="libbpf", backend="btf", tried=lambda: []
    )
    monkeypatch.setattr(session_module, "probe_machine", lambda: None)
    monkeypatch.setattr(Session, "find_shims", lambda _: made.append("search"))
    recorded = Session(opened, tmp_path, {}, "", MagicMock(), clock_ns=each_look_is_an_hour_later)
    recorded._spool, recorded._drain, recorded._shims = spool, MagicMock(), shims  # type: ignore[assignment]
    recorded.counters()
    assert made == ["clock", "search"]
    made.clear()
    assert recorded.stop().records == 7
    # Both are due again by then.
    assert made == ["search", "clock", "end"]


def test_a_fork_that_marks_nothing_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pid 1 is heard; 2 is its fork; 3 has the shim, and nobody heard of it or of its parent."""
    parents = {1: 9, 2: 1, 3: 9}
    shims = SimpleNamespace(
        find=lambda _: None, knows={1}.__contains__, is_taken=lambda _: False, sources=1
    )
    monkeypatch.setattr(Session, "_to_search", lambda _: iter(parents))
    monkeypatch.setattr(session_module, "shim_is_loaded", lambda _: True)
    monkeypatch.setattr(session_module, "parent_of", parents.__getitem__)
    opened: Any = SimpleNamespace()
    recorded = Session(opened, tmp_path, {}, "", MagicMock())
    recorded._spool, recorded._drain, recorded._shims = MagicMock(), MagicMock(), shims  # type: ignore[assignment]
    recorded.find_shims()
    assert recorded._refused == {3}


def test_facts_that_did_not_fit_are_written_when_there_is_room(tmp_path: Path) -> None:
    opened: Any = SimpleNamespace(loader="libbpf", backend="btf", tried=lambda: [])
    recorded = Session(opened, tmp_path, {"told": "x" * 20_000}, "", MagicMock())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with suppress(OSError):
            recorded._write_session_file()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    recorded._write_session_file()
    assert [path.name for path in tmp_path.iterdir()] == [SESSION_FILE]
    assert json.loads((tmp_path / SESSION_FILE).read_text())["told"] == "x" * 20_000
