"""What is said on stderr: a line is what it seems, whatever the names in it hold."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rlscope_analysis.errors import TraceError
from rlscope_trace.cli import messages
from rlscope_trace.errors import Said, TracerError

if TYPE_CHECKING:
    from pathlib import Path

FORGED = "a\nerror: forged\r\x1b[31m\u2028hint: rm"
PROGRAM = "from rlscope_trace.cli import main; main()"
COMMANDS = (
    ("summarize",), ("recover",), ("export", "chrome"), ("import", "kineto"), ("import", "nsys"),
    ("fleet", "summarize"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_name_of_a_file_begins_no_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    for name in (FORGED, f"missing {FORGED}"):
        (tmp_path / FORGED).write_text("nothing of ours")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command, str(tmp_path / name)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert done.returncode in (1, 2)
        lines = done.stderr.split("\n")
        assert [line.partition(" ")[0] for line in lines] in (["error:", "hint:", ""],
                                                              ["error:", ""])  # fmt: skip
        assert "forged" in lines[0]


@pytest.mark.parametrize("kind", [TracerError, TraceError])
def test_an_error_is_one_line_and_its_hint_another(
    capsys: pytest.CaptureFixture[str], kind: type[TracerError | TraceError]
) -> None:
    messages.failure(kind(f"no {FORGED}", hint=FORGED))
    harmless = "a\\nerror: forged\\r\\x1b[31m\\u2028hint: rm"
    assert capsys.readouterr().err == f"error: no {harmless}\nhint: {harmless}\n"


def test_several_findings_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    error = TracerError("one", "two\nthree", hint=("mend", FORGED))
    assert (str(error), error.hint) == ("one\ntwo\nthree", f"mend\n{FORGED}")
    messages.failure(error, "warning")
    assert capsys.readouterr().err.split("\n") == [
        "warning: one", "warning: two\\nthree",
        "hint: mend", "hint: a\\nerror: forged\\r\\x1b[31m\\u2028hint: rm", "",
    ]  # fmt: skip


def test_what_a_command_said_is_read_back_by_its_words() -> None:
    words = "recording\rerror: a: b\r\nhint: sudo x\nwarning: half\nerror: c\nhints: no\n"
    said = Said.of(words)
    assert (said.errors, said.hints, said.warnings) == (["a: b", "c"], ["sudo x"], ["half"])
