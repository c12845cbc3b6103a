"""The example of docs/overlap.md gives the table that stands below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from trace_builder import REPOSITORY, TraceBuilder, run

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pandas")


def training(path: Path) -> None:
    """Write a trace of one loop: collect with the simulator, then learn with the GPU."""
    builder = TraceBuilder(path)
    process = builder.process(pid=100)
    thread = builder.thread(process, states=[run(170)])
    builder.operation(thread, 0, 70, "collect")
    builder.native_call(thread, 0, 20, "backend")
    builder.native_call(thread, 20, 70, "simulator")
    builder.operation(thread, 70, 170, "learn")
    builder.native_call(thread, 80, 130, "backend")
    # Two streams at once are busy once.
    builder.gpu_activity(process, 100, 150, stream_id=7)
    builder.gpu_activity(process, 120, 170, stream_id=8)
    builder.write()


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training(tmp_path / "trace.duckdb")
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / "docs" / "overlap.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {}
    exec(program[1], names)  # what the reader would run
    table = [
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if re.match(r"\| (collect|learn) ", line)
    ]
    found = [
        [operation, f"[{', '.join(categories)}]", str(time_ns), str(count)]
        for operation, categories, time_ns, count in names["sets"].itertuples(index=False)
    ]
    assert len(table) == 6
    assert found == table
