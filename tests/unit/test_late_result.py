"""What late attach says: from the status of the shim to facts, and rights on files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlscope_analysis.sentences import coverage_sentence, fact_sentence
from rlscope_trace import privileges
from rlscope_trace.record import inject
from rlscope_trace.record.inject import DONE, SCANNING, InjectionError, _Status

REPOSITORY = Path(__file__).resolve().parents[2]
LATE_H = REPOSITORY / "cupti" / "inject_request.h"
PYTHON_DONE, PYTHON_FAILED = 2, 3


def status(
    *, state: int = DONE, python: int = PYTHON_DONE, message: str = "", **counts: int
) -> _Status:
    names = ("filled", "ours", "foreign", "denied", "busy")
    numbers = [counts.get(name, 0) for name in names]
    return _Status.parse(inject.STATUS_FIELDS.pack(1, state, python, *numbers, message.encode()))


def test_status_is_laid_out_as_the_shim_writes_it(tmp_path: Path) -> None:
    program = tmp_path / "sizes.c"
    program.write_text(
        f'#include "{LATE_H}"\n#include <stddef.h>\n#include <stdio.h>\n'
        'int main(void) { printf("%zu %zu %zu %d", sizeof(struct rls_inject_status),'
        " offsetof(struct rls_inject_status, message), sizeof(struct rls_inject_request),"
        " RLS_INJECT_VERSION); }\n"
    )
    made = tmp_path / "sizes"
    try:
        subprocess.run(["cc", "-o", made, program], check=True)
    except FileNotFoundError:
        pytest.skip("needs a C compiler")
    reported = subprocess.run([made], check=True, capture_output=True, text=True).stdout.split()
    expected = (inject.STATUS_FIELDS.size, 32, inject.REQUEST.size, inject.VERSION)
    assert tuple(map(int, reported)) == expected


def test_everything_is_told() -> None:
    found = status(
        filled=3,
        ours=1,
        foreign=2,
        busy=1,
        message="python=3.11\nenvironment=NVTX_INJECTION64_PATH\nnvtx=repaired\n"
        "lost=decorated\nlost=domains\nauto=installed\nerror=_repair_nvtx: KeyError('x')",
    )
    captured, missing = (
        "\n".join(map(fact_sentence, facts))
        for facts in (inject._covered(found), inject._missing(found))
    )
    assert "4 object(s) that were loaded before" in captured
    assert "loaded from here on" in captured
    assert "package nvtx" in captured
    assert "automatic phases" in captured
    assert "2 object(s) send their NVTX ranges to another tool" in missing
    assert "1 object(s) with NVTX were being set up" in missing
    assert "decorated" in missing
    assert "domains" in missing
    assert "KeyError('x')" in missing
    assert "no automatic phases" not in missing


def test_nothing_is_promised_that_was_not_done() -> None:
    found = status(python=0)
    assert list(inject._covered(found)) == []
    assert "late_no_python" in [fact.code for fact in inject._missing(found)]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (status(state=SCANNING), "has not finished"),
        (status(python=1), "interpreter is busy"),
        (status(python=PYTHON_FAILED), "Python half of the attach failed"),
        (status(message="nvtx=disabled"), "NVTX_DISABLE"),
        (status(message="auto=old_python"), "no automatic phases: Python is older than 3.8"),
        (status(message="auto=not installed"), "no automatic phases: not installed"),
        (
            status(message="auto=installed\nfailed=adapter failed\ttorch\tKeyError\t'x'"),
            "automatic phases are incomplete: the adapter of torch failed: KeyError: 'x'",
        ),
    ],
)
def test_each_gap_is_named(found: _Status, words: str) -> None:
    assert words in coverage_sentence(inject._missing(found), measured=True)


def test_what_is_missing_is_said_in_the_order_in_which_it_was_found() -> None:
    message = "lost=decorated\nauto=free_threaded\nerror=x"
    missing = list(inject._missing(status(python=1, busy=2, message=message)))
    said = "; ".join(map(fact_sentence, missing))
    assert coverage_sentence(missing, measured=True) == f"in part: {said}"


def test_obstacles_are_said_in_one_sentence(tmp_path: Path) -> None:
    facts = list(inject._obstacles(os.getpid(), tmp_path / "shim.so"))
    error = InjectionError(*(fact for fact, _ in facts))
    assert coverage_sentence(error.facts, measured=False) == (
        f"the shim cannot be loaded into pid {os.getpid()}: it is the recorder itself or started"
        f" it; it has a file system of its own, without {tmp_path / 'shim.so'}"
    )


def test_status_of_another_version_is_refused() -> None:
    with pytest.raises(InjectionError, match="late_other_version"):
        _Status.parse(inject.STATUS_FIELDS.pack(2, *[0] * 7, b""))


def test_request_holds_the_environment_and_refuses_what_does_not_fit() -> None:
    data = inject._request(True, {"A": "1", "B": "two"})
    assert len(data) == inject.REQUEST.size
    assert data[8:].startswith(b"A=1\0B=two\0\0")
    with pytest.raises(InjectionError, match="late_long_paths"):
        inject._request(False, {"A": "x" * 2048})


def test_loaded_shim_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    maps = tmp_path / "7" / "maps"
    maps.write_text("7f00-7f10 r-xp 0 08:01 5  /opt/x/librlscope_shim.so\n")
    assert inject.shim_is_loaded(7, proc=tmp_path)
    maps.write_text("7f00-7f10 r-xp 0 08:01 5  /opt/x/librlscope_shim.so.old\n")
    assert not inject.shim_is_loaded(7, proc=tmp_path)
    assert not inject.shim_is_loaded(8, proc=tmp_path)


@pytest.mark.parametrize(
    ("mode", "uid", "groups", "may"),
    [
        (0o604, 1000, {1000}, True),
        (0o640, 1000, {1000}, False),
        (0o640, 1000, {5}, True),
        (0o604, 1000, {5}, False),
        (0o044, 7, {5}, False),
        (0o400, 7, set(), True),
    ],
)
def test_rights_are_the_users_then_the_groups_then_the_others(
    mode: int, uid: int, groups: set[int], may: bool
) -> None:
    found = os.stat_result((mode, 0, 0, 1, 7, 5, 0, 0, 0, 0))
    assert privileges._has_right(found, uid, groups, 0o4) is may


def run_repair(setup: str, show: str) -> str:
    """Run inject_repair.py in an interpreter that `setup` prepared, and print `show`."""
    repair = (REPOSITORY / "cupti" / "inject_repair.py").read_text()
    text = (
        f"{setup}\nimport os\n"
        "given = {'SHIM_FOLDER': b'/nowhere', 'ENVIRONMENT': b'RLS_X=1\\0', 'AUTO': b'1'}\n"
        f"exec(compile({repair!r}, 'repair', 'exec'), given)\n{show}"
    )
    made = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=30
    )
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    return made.stdout


def test_repair_without_nvtx_and_without_phases() -> None:
    reported = run_repair("import sys", "print(given['RESULT'].decode(), 'json' in sys.modules)")
    phases = "auto=the package rlscope_phases is not installed beside the shim False"
    assert reported.splitlines()[1:] == ["environment=RLS_X", phases]


def test_repair_leaves_the_search_path_as_it_was() -> None:
    assert run_repair("import sys; before = list(sys.path)", "print(sys.path == before)") == (
        "True\n"
    )


def test_repair_does_not_replace_what_the_program_has_set() -> None:
    show = (
        "import subprocess; "
        "print(subprocess.check_output(['/bin/sh', '-c', 'echo $RLS_X'], text=True))"
    )
    assert run_repair("import os; os.environ['RLS_X'] = 'own'", show).strip() == "own"
    assert run_repair("", show).strip() == "1"


def test_repair_swallows_what_a_strange_nvtx_raises() -> None:
    setup = (
        "import sys, types\n"
        "def leave(): raise SystemExit\n"
        "nvtx = types.ModuleType('nvtx'); nvtx.enabled = leave\n"
        "sys.modules.update({'nvtx': nvtx, 'nvtx._lib.lib': types.ModuleType('lib')})"
    )
    assert "error=_repair_nvtx: SystemExit()" in run_repair(setup, "print(given['RESULT'])")


@pytest.mark.parametrize(("machine", "is_refused"), [(183, True), (62, False)])
def test_a_program_of_another_machine_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: int, is_refused: bool
) -> None:
    """e_machine of aarch64 and of x86-64."""
    (tmp_path / "7").mkdir()
    header = b"\x7fELF\x02\x01" + bytes(12) + machine.to_bytes(2, "little")
    (tmp_path / "7/exe").write_bytes(header)
    (tmp_path / "7/maps").write_text("7f00-7f01 r-xp 00000000 00:00 1 /lib/libc.so.6\n")
    monkeypatch.setattr(inject, "PROC", tmp_path)
    said = [fact_sentence(fact) for fact, _ in inject._program_obstacles(7)]
    refusal = "the shim cannot be loaded into pid 7: libraries are loaded into running programs on"
    assert [words.startswith(refusal) for words in said] == ([True] if is_refused else [])
