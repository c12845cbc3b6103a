"""Writes down all that is reported about traces, and compares two such sets: see scripts/golden."""

from __future__ import annotations

import argparse
import csv
import filecmp
import hashlib
import io
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from golden_inputs import make

from rlscope_analysis.catalog import describe
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli import main as main_of_commands

# Of longer ones only the number of rows and a hash is kept.
MOST_ROWS = 20_000
JSON = ("--format", "json")
QUESTIONS = {
    "summary.txt": ("--all",),
    "summary.json": JSON,
    "summary.csv": ("--format", "csv"),
    "by-operation.txt": ("--by", "operation"),
    "by-operation.json": ("--by", "operation", *JSON),
}
for name in REPORTS:
    QUESTIONS |= {
        f"view-{name}.txt": ("--view", name),
        f"view-{name}.json": ("--view", name, *JSON),
    }


def reported(*arguments: str) -> bytes:
    """Return what a command prints, and how it ends."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(output), redirect_stderr(output):
        try:
            main_of_commands(list(arguments))
            code: object = 0
        except SystemExit as stop:
            code = stop.code
    output.write(f"exit code {code}\n")
    output.flush()
    return output.buffer.getvalue()


def make_trace(source: Path, folder: Path) -> Path:
    """Make a trace of an input, which stays as it is."""
    trace = folder / f"{source.name.partition('.')[0]}.duckdb"
    if source.suffix == ".spool":
        copy = folder / f"{trace.name}.spool"
        shutil.copytree(source, copy)
        # A spool of somebody else is not recovered.
        words = reported("recover", str(copy), "-o", str(trace))
    else:
        kind = "nsys" if source.suffix == ".sqlite" else "kineto"
        words = reported("import", kind, str(source), "-o", str(trace))
    if not trace.exists():
        raise SystemExit(f"error: {source}: {words.decode()}")
    return trace


def write_relations(trace: Path, folder: Path, **window: str) -> None:
    """Write every relation, its rows in order: NAME.csv, or a line of a hash where it is long."""
    with open_trace(trace, **window) as opened:
        for relation in describe(opened.connection):
            if relation.name == "meta" or relation.name.startswith("_"):
                continue
            rows = opened.sql(f'FROM "{relation.name}" ORDER BY ALL').fetchall()
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow([column.name for column in relation.columns])
            writer.writerows(rows)
            content = text.getvalue()
            if len(rows) > MOST_ROWS:
                content = f"{len(rows)} rows {hashlib.sha256(content.encode()).hexdigest()}\n"
            (folder / f"{relation.name}.csv").write_text(content, encoding="utf-8")


def window_of(trace: Path) -> tuple[str, str]:
    """Return the middle third of a trace."""
    with open_trace(trace) as opened:
        ((length_ns,),) = opened.sql("SELECT max(end_ns) - min(start_ns) FROM thread").fetchall()
    return f"{length_ns // 3}ns", f"{length_ns * 2 // 3}ns"


def record(inputs: Path, out: Path) -> None:
    """Write down all that is reported about each input."""
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        for source in sorted(inputs.iterdir()):
            trace = make_trace(source, Path(temporary))
            start, end = window_of(trace)
            windows: dict[str, dict[str, str]] = {
                "whole": {},
                "window": {"start": start, "end": end},
            }
            for name, window in windows.items():
                folder = out / trace.stem / name
                (folder / "relations").mkdir(parents=True)
                write_relations(trace, folder / "relations", **window)
                cut = ("--from", start, "--to", end) if window else ()
                for file, question in QUESTIONS.items():
                    # Names of the same length, so that no line is wrapped elsewhere.
                    words = reported("summarize", str(trace), *question, *cut)
                    (folder / file).write_bytes(words.replace(temporary.encode(), b""))
            sys.stdout.write(f"{trace.stem}\n")


def compare(before: Path, after: Path) -> int:
    """Print what differs; returns how many files do."""
    names = {
        path.relative_to(root)
        for root in (before, after)
        for path in root.rglob("*")
        if path.is_file()
    }
    different = [name for name in sorted(names) if not same(before / name, after / name)]
    for name in different:
        sys.stdout.write(f"{name}\n")
    alike = len(names) - len(different)
    sys.stdout.write(f"{alike} files are the same, {len(different)} differ\n")
    return len(different)


def same(one: Path, other: Path) -> bool:
    """Tell whether two files exist and hold the same."""
    return one.exists() and other.exists() and filecmp.cmp(one, other, shallow=False)


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, *arguments in (
        ("inputs", "out"), ("record", "inputs", "out"), ("compare", "before", "after"),
    ):  # fmt: skip
        command = commands.add_parser(name)
        for argument in arguments:
            command.add_argument(argument, type=Path)
    asked = parser.parse_args()
    if asked.command == "inputs":
        make(asked.out)
    elif asked.command == "record":
        record(asked.inputs, asked.out)
    elif compare(asked.before, asked.after):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
