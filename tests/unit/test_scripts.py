"""The scripts: what they say of themselves, and the set-up as far as it needs no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SETUP = REPOSITORY / "scripts" / "lib" / "setup.sh"
SCRIPTS = sorted(
    path for path in (REPOSITORY / "scripts").iterdir() if path.is_file() and path.suffix != ".md"
)


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command without stdin and return what it said."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def with_setup(lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run shell lines that have sourced the set-up, as a script does."""
    return run(
        ["bash", "-c", f'set -euo pipefail\nsource "$0"\n{lines}', str(SETUP)], **environment
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_runs_and_explains_itself(script: Path) -> None:
    assert os.access(script, os.X_OK)
    first = script.read_text().splitlines()[0]
    assert first in {"#!/usr/bin/env bash", "#!/usr/bin/env python3"}
    # A Python script runs in the environment that has the package, whatever python3 is on PATH.
    interpreter = [sys.executable] if "python3" in first else []
    told = run([*interpreter, str(script), "--help"])
    assert told.returncode == 0
    assert "usage: " in told.stdout
    assert told.stderr == ""


def test_bench_says_what_is_missing_before_it_is_installed(tmp_path: Path) -> None:
    bench = str(REPOSITORY / "scripts" / "bench")
    # Without site-packages: as the Python of a machine on which nothing was set up.
    told = run([sys.executable, "-S", bench, "load"], PYTHONPATH="", RLSCOPE_VENV=str(tmp_path))
    assert told.returncode == 1
    assert told.stderr.splitlines() == [
        f"error: no rlscope-trace is installed in {tmp_path}",
        "hint: sudo scripts/test does it",
    ]


def test_a_step_says_when_it_begins_and_how_long_it_took(tmp_path: Path) -> None:
    told = with_setup(f"LOG_DIR={tmp_path}; step one 'counting' 'count again' seq 3")
    assert told.returncode == 0
    begins, ends = told.stdout.splitlines()
    assert begins == "counting ..."
    assert ends.startswith("counting: done in ")
    assert (tmp_path / "one.log").read_text() == "1\n2\n3\n"


def test_a_failed_step_shows_the_end_of_its_log_and_a_hint(tmp_path: Path) -> None:
    lines = f"LOG_DIR={tmp_path}; step two 'counting' 'count again' sh -c 'seq 100; exit 7'; say on"
    told = with_setup(lines)
    assert told.returncode == 1
    assert "on" not in told.stdout.splitlines()
    assert "\n100\n" in told.stderr
    assert "\n80\n" not in told.stderr
    assert "error: counting: exit code 7 after " in told.stderr
    assert told.stderr.splitlines()[-1] == "hint: count again"


def without_root(tmp_path: Path) -> str:
    """Return a PATH on which `id -u` answers as it does for a user."""
    stub = tmp_path / "id"
    stub.write_text("#!/bin/sh\necho 1000\n")
    stub.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_demo_without_root_names_the_way(tmp_path: Path) -> None:
    told = run([str(REPOSITORY / "scripts" / "demo")], PATH=without_root(tmp_path))
    assert told.returncode == 1
    assert told.stdout == ""
    assert told.stderr.splitlines()[-1] == "hint: sudo scripts/demo"


@pytest.mark.parametrize("arguments", [["--seconds"], ["--seconds", "x"], ["train.py"]])
def test_demo_refuses_what_it_does_not_understand(arguments: list[str]) -> None:
    told = run([str(REPOSITORY / "scripts" / "demo"), *arguments])
    assert told.returncode == 2
    assert f"error: not understood: {' '.join(arguments)}" in told.stderr


def test_missing_packages_knows_alternatives_and_plus_signs(tmp_path: Path) -> None:
    stub = tmp_path / "dpkg-query"
    stub.write_text("#!/bin/sh\nprintf '%s\\n' 'g++ installed' 'b installed' 'd config-files'\n")
    stub.chmod(0o755)
    told = with_setup("missing_packages g++ 'a|b' 'c|d' e", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert told.stdout.split() == ["c|d", "e"]


def test_find_python_passes_over_one_that_is_too_old(tmp_path: Path) -> None:
    stub = tmp_path / "python3"
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    told = with_setup("find_python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert told.returncode == 0
    assert told.stdout.strip() != str(stub)


def test_a_changed_source_changes_the_build_stamp(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "bpf/a.c", "cupti/d.c", "tracer/b.py", "analysis/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    hashes = []
    for change in (
        "true",
        "echo y >tracer/b.py",
        "mkdir tracer/__pycache__; : >tracer/__pycache__/b",
    ):
        told = with_setup(f"cd {tmp_path}; {change}; source_hash")
        assert told.returncode == 0
        hashes.append(told.stdout)
    assert hashes[0] != hashes[1]
    assert hashes[1] == hashes[2]
