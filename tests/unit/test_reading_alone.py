"""Traces are made and read where nothing can be recorded: without the part that does, and bcc."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from damaged_spool import build
from kineto_builder import kernel, write_kineto

if TYPE_CHECKING:
    from pathlib import Path

REFUSING = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("rlscope_trace.record", "rlscope_trace._capture", "bcc")):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refusing())
from rlscope_trace.cli import main
main(sys.argv[1:])
"""


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", REFUSING, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    build(folder / "a.duckdb.spool")
    done = command("recover", folder / "a.duckdb.spool")
    assert done.returncode == 0, done.stderr
    return folder / "a.duckdb"


def test_the_part_that_records_is_refused() -> None:
    done = command("doctor")
    assert "rlscope_trace.record is not here" in done.stderr


def test_other_profilers_are_imported(tmp_path: Path) -> None:
    made = write_kineto(tmp_path / "a.json", [kernel("k", 1, 2)])
    done = command("import", "kineto", made, "-o", tmp_path / "a.duckdb")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.duckdb").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("summarize",), ("summarize", "--by", "operation"), ("summarize", "--view", "thread"),
        ("sql", "FROM process"), ("export chrome", "-o", "-"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_traces_are_read(recovered: Path, words: tuple[str, ...]) -> None:
    name, *rest = words
    done = command(*name.split(), recovered, *rest)
    assert done.returncode == 0, done.stderr
    assert done.stdout
