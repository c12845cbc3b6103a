"""The traces that benchmarks make for themselves are traces of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.trace import open_trace
from trace_builder import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_trace_of_the_sweep_and_of_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    from bench_lib.overlap_trace import write_trace

    written = write_trace(tmp_path / "trace.duckdb", 10_000)
    assert 9_000 < written < 11_000
    with open_trace(tmp_path / "trace.duckdb") as trace:
        ((bad,),) = trace.sql("SELECT count(*) FROM overlap_fault").fetchall()
        ((buckets,),) = trace.sql("SELECT count(DISTINCT bucket) FROM breakdown").fetchall()
    assert (bad, buckets >= 3) == (0, True)


def test_the_trace_of_the_critical_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    from bench_lib.critical_path import _write

    _write(tmp_path / "trace.duckdb", 15 * 200)
    with open_trace(tmp_path / "trace.duckdb") as trace:
        paths = trace.sql(
            "SELECT iteration_id, sum(end_ns - start_ns), count(DISTINCT thread_id) > 1"
            " FROM critical_path GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        iterations = trace.sql(
            "SELECT iteration_id, end_ns - start_ns, true FROM iteration ORDER BY ALL"
        ).fetchall()
    assert paths == iterations
    assert len(paths) == 2
