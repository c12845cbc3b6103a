"""What all findings mean together: the doctor's verdict and the error of a failed start."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rlscope_trace.cli import doctor as doctor_module
from rlscope_trace.errors import PermissionNeededError, TracerError
from rlscope_trace.record.preflight import (
    Finding,
    explain_failure,
    run_checks,
    sudo_command,
    tracing_works,
    working_backend,
)

ARGV = ("--pid", "4242")
BTF_OK = Finding("backend_btf", "ok", "programs of backend btf load and attach")
BTF_NOTE = Finding("backend_btf", "note", "programs of backend btf do not load and attach: no BTF")
BTF_ERROR = Finding("backend_btf", "error", "programs of backend btf do not load and attach: EPERM")
TRACEFS_OK = Finding("backend_tracefs", "ok", "programs of backend tracefs load and attach")
NO_CAPABILITY = Finding(
    "capabilities", "error", "tracing needs CAP_BPF and CAP_PERFMON", sudo_command(ARGV)
)
NO_LIBELF = Finding("libelf", "error", "libelf.so.1 cannot be loaded", "apt-get install libelf1")
NO_SPACE = Finding("disk", "warning", "/ has 100 MiB free", "df -h /")


def test_every_check_is_made_at_once(tmp_path: Path) -> None:
    findings = run_checks(tmp_path / "missing/run.duckdb")
    names = [finding.name for finding in findings]
    assert len(names) == len(set(names))
    assert {"capabilities", "kernel", "btf", "tracefs", "lockdown", "bcc", "disk"} <= set(names)
    assert next(f for f in findings if f.name == "output").level == "error"


def test_the_first_backend_that_works_is_taken() -> None:
    assert working_backend([BTF_OK, TRACEFS_OK]) == "btf"
    assert working_backend([BTF_NOTE, TRACEFS_OK]) == "tracefs"
    assert working_backend([BTF_ERROR]) is None


def test_tracing_works_only_with_a_backend_and_without_errors() -> None:
    assert tracing_works([BTF_OK, NO_SPACE])
    assert not tracing_works([BTF_OK, NO_LIBELF])
    assert not tracing_works([NO_SPACE])


def test_missing_capabilities_are_told_with_the_users_own_command() -> None:
    closed = Finding("tracefs", "error", "/sys/kernel/tracing is not readable by this user")
    error = explain_failure("EPERM", argv=ARGV, findings=[NO_CAPABILITY, closed, BTF_ERROR])
    assert isinstance(error, PermissionNeededError)
    assert str(error) == "tracing needs CAP_BPF and CAP_PERFMON"
    assert error.hint == 'sudo env "PATH=$PATH" rlscope-trace --pid 4242'
    assert error.exit_code == 1


def test_all_that_is_missing_is_told_at_once() -> None:
    error = explain_failure("EPERM", argv=ARGV, findings=[NO_CAPABILITY, NO_LIBELF, NO_SPACE])
    assert str(error).splitlines() == [NO_CAPABILITY.what, NO_LIBELF.what]
    assert error.hint == f"{NO_CAPABILITY.remedy}\n{NO_LIBELF.remedy}"


def test_a_failure_that_is_not_about_privilege() -> None:
    error = explain_failure("EINVAL", argv=ARGV, findings=[BTF_ERROR])
    assert not isinstance(error, PermissionNeededError)
    assert str(error) == BTF_ERROR.what
    assert error.hint == "rlscope-trace doctor"


def test_a_failure_that_no_check_explains_gives_the_loaders_reason() -> None:
    error = explain_failure("map creation: ENOMEM", argv=ARGV, findings=[BTF_OK])
    assert type(error) is TracerError
    assert "map creation: ENOMEM" in str(error)


def run_doctor(
    monkeypatch: pytest.MonkeyPatch, findings: list[Finding], *arguments: str
) -> tuple[int, str]:
    monkeypatch.setattr(doctor_module, "run_checks", lambda _output, *, argv: findings)
    app = typer.Typer()
    app.command()(doctor_module.doctor)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout


def test_doctor_table_of_a_machine_that_can_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, [BTF_NOTE, TRACEFS_OK, NO_SPACE])
    assert code == 0
    assert text.splitlines() == [
        "level    check            finding",
        f"note     backend_btf      {BTF_NOTE.what}",
        f"ok       backend_tracefs  {TRACEFS_OK.what}",
        f"warning  disk             {NO_SPACE.what}",
        "                          hint: df -h /",
        "",
        "tracing works, by backend tracefs",
    ]


def test_doctor_table_of_a_machine_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, [NO_CAPABILITY, BTF_OK])
    assert code == 1
    assert text.splitlines()[-1] == "tracing does not work: 1 error above"
    code, text = run_doctor(monkeypatch, [NO_CAPABILITY, NO_LIBELF])
    assert text.splitlines()[-1] == "tracing does not work: 2 errors above"


def test_doctor_json(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run_doctor(monkeypatch, [BTF_OK, NO_SPACE], "--format", "json")
    assert code == 0
    answer = json.loads(text)
    assert (answer["works"], answer["backend"]) == (True, "btf")
    assert answer["findings"][1] == {
        "name": "disk",
        "level": "warning",
        "what": "/ has 100 MiB free",
        "remedy": "df -h /",
    }
    code, text = run_doctor(monkeypatch, [NO_CAPABILITY], "--format", "json")
    assert code == 1
    assert json.loads(text)["backend"] is None
