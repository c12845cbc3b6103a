"""docs/extending.md, followed to the letter: a view and a renderer are one place each."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import rlscope_analysis
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.column import Role
from rlscope_analysis.trace import open_trace
from trace_builder import REPOSITORY, TraceBuilder, run, sleep

PAGE = (REPOSITORY / "docs/extending.md").read_text(encoding="utf-8")
ASK = """
from rlscope_trace.cli import main
for output_format in ("table", "json", "csv"):
    try:
        main(["summarize", {trace!r}, "--view", "sleepers", "--format", output_format])
    except SystemExit as stop:
        assert not stop.code, stop.code
    print("----")
"""


def example(language: str) -> str:
    """Return the one example of a language that the page has."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return str(found)


def sleeping(path: Path) -> Path:
    builder = TraceBuilder(path)
    builder.coverage("thread_state")
    process = builder.process(pid=10, name="train", end_ns=4_000_000)
    for tid in (10, 11):
        builder.thread(process, tid=tid, states=[run(1_000_000), sleep((tid - 9) * 1_000_000)])
    return builder.write()


def test_a_view_is_a_file_and_an_entry(tmp_path: Path) -> None:
    package = tmp_path / "site/rlscope_analysis"
    shutil.copytree(Path(rlscope_analysis.__file__).parent, package)
    (package / "reports/sleepers.sql").write_text(example("sql"), encoding="utf-8")
    table = package / "reports/__init__.py"
    entry = "    for report in (\n"
    content = table.read_text(encoding="utf-8")
    assert content.count(entry) == 1
    table.write_text(content.replace(entry, entry + example("entry")), encoding="utf-8")
    trace = sleeping(tmp_path / "trace.duckdb")

    done = subprocess.run(
        [sys.executable, "-c", ASK.format(trace=str(trace))],
        env={"PYTHONPATH": f"{package.parent}:{':'.join(sys.path)}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown, document, rows = done.stdout.split("----\n")[:3]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[1:] == [
        "pid process sleeping ms % waits",
        "10 train 3.000 60.0 2",
        "total 3.000 2",
    ]
    assert json.loads(document)["rows"] == [
        {"pid": 10, "process": "train", "sleeping_ns": 3_000_000, "share": 0.6, "waits": 2}
    ]
    assert next(csv.DictReader(io.StringIO(rows)))["sleeping_ns"] == "3000000"


def test_a_renderer_knows_the_model_alone(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    exec(compile(example("python"), "docs/extending.md", "exec"), names)
    render = names["render"]
    assert callable(render)
    with open_trace(sleeping(tmp_path / "trace.duckdb")) as trace:
        for name in ("thread", "cpu", "breakdown", "process-overlap"):
            found = answer(trace, REPORTS[name])
            (table,) = found.tables
            lines = "".join(render(found)).splitlines()
            shown = [column for column in table.columns if column.role is Role.SHOWN]
            assert lines[0] == f"### {table.title}"
            assert len(lines) == 3 + len(list(table.rows))
            assert {line.count("|") for line in lines[1:]} == {len(shown) + 1}
