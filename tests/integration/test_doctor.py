"""The doctor on the machine the tests run on, and as somebody without any privilege."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DOCTOR = """
import typer
from rlscope_trace.cli.doctor import doctor
typer.run(doctor)
"""
# Everything is imported first: the user may not be able to read where the tests' Python lies.
UNPRIVILEGED_DOCTOR = """
import os, pathlib, sys, typer
from rlscope_trace.cli.answers import AnswerFormat
from rlscope_trace.cli.doctor import doctor
from rlscope_trace.record.preflight import run_checks
run_checks()
typer.echo("", nl=False)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
try:
    doctor(AnswerFormat.TABLE, pathlib.Path(sys.argv[1]))
except typer.Exit as end:
    sys.exit(end.exit_code)
"""


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.root
def test_root_can_trace_here() -> None:
    done = run(DOCTOR)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("tracing works, by backend ")


@pytest.mark.root
def test_json_says_the_same(tmp_path: Path) -> None:
    done = run(DOCTOR, "--format", "json", "-o", str(tmp_path / "run.duckdb"))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["works"] is True
    assert answer["backend"] in ("btf", "tracefs")
    output = next(finding for finding in answer["findings"] if finding["name"] == "output")
    assert output["what"] == f"{tmp_path} is writable"


@pytest.mark.root
def test_a_user_without_privilege_is_told_what_to_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    done = run(UNPRIVILEGED_DOCTOR, str(tmp_path / "run.duckdb"))
    assert done.returncode == 1
    assert done.stderr == ""
    assert f"{tmp_path} " in done.stdout
    assert "tracing needs CAP_BPF and CAP_PERFMON" in done.stdout
    assert 'hint: sudo env "PATH=$PATH" rlscope-trace doctor' in done.stdout
    assert done.stdout.splitlines()[-1].startswith("tracing does not work: ")


@pytest.mark.root
def test_a_directory_that_is_missing_stops_tracing(tmp_path: Path) -> None:
    done = run(DOCTOR, "-o", str(tmp_path / "missing/run.duckdb"))
    assert done.returncode == 1
    assert f"hint: mkdir -p {tmp_path}/missing" in done.stdout
