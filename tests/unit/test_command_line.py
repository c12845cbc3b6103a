"""The command line before a command is chosen: its help, and completion by the shell."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rlscope_trace.cli import _COMMANDS

HEAVY = ("duckdb", "numpy", "pandas", "rlscope_trace._capture", "rlscope_trace.cli.summarize")
# What is loaded is told last, also where the command ends itself.
PROGRAM = """
import atexit, sys
sys.argv = ["rlscope-trace", *sys.argv[1:]]
heavy = sys.argv.pop(1).split(",")
atexit.register(lambda: print("loaded:", *(name for name in heavy if name in sys.modules)))
from rlscope_trace.cli import main
main()
"""
BASH = {"_RLSCOPE_TRACE_COMPLETE": "complete_bash"}


def run(*arguments: str, **environment: str) -> tuple[list[str], list[str]]:
    """Return what a command prints, and which of the HEAVY modules it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(HEAVY), *arguments],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    *lines, loaded = done.stdout.splitlines()
    return lines, loaded.removeprefix("loaded:").split()


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_help_and_version_load_no_command(option: str) -> None:
    lines, loaded = run(option)
    assert lines
    assert not loaded


def test_help_names_each_command_and_what_it_does() -> None:
    lines, _ = run("--help", COLUMNS="100")
    listed = [line.strip() for line in lines[lines.index("Commands:") + 1 :]]
    assert [line.split(maxsplit=1)[0] for line in listed] == list(_COMMANDS)
    assert [line.split(maxsplit=1)[1] for line in listed] == list(_COMMANDS.values())


@pytest.mark.parametrize("typed", ["", "s", "re"])
def test_names_of_commands_are_completed_without_loading_one(typed: str) -> None:
    lines, loaded = run(COMP_WORDS=f"rlscope-trace {typed}", COMP_CWORD="1", **BASH)
    assert lines == [name for name in _COMMANDS if name.startswith(typed)]
    assert not loaded


def test_options_of_a_command_are_completed() -> None:
    lines, loaded = run(COMP_WORDS="rlscope-trace summarize --vi", COMP_CWORD="2", **BASH)
    assert lines == ["--view"]
    assert "duckdb" in loaded


def test_commands_of_a_command_are_completed() -> None:
    lines, _ = run(COMP_WORDS="rlscope-trace import ", COMP_CWORD="2", **BASH)
    assert lines == ["kineto", "nsys", "xplane"]


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_stdout_that_takes_nothing_is_one_error(option: str) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-m", "rlscope_trace", option],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "error: cannot write: No space left on device\n")


@pytest.mark.root
@pytest.mark.parametrize(
    ("environment", "error", "hint"),
    [
        ({}, "no home is known to install it in", "HOME=FOLDER rlscope-trace --install-completion"),
        ({"HOME": "/sys"}, "cannot write /sys/", "rlscope-trace --show-completion "),
    ],
)
def test_completion_without_a_home_to_write_into_is_one_error(
    environment: dict[str, str], error: str, hint: str
) -> None:
    user = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
    program = "from rlscope_trace.cli import main; main()"
    done = subprocess.run(
        [*user, sys.executable, "-c", program, "--install-completion", "bash"],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"error: {error}")
    assert said[1].startswith(f"hint: {hint}")
