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
    reported = run([*interpreter, str(script), "--help"])
    assert reported.returncode == 0
    assert "usage: " in reported.stdout
    assert reported.stderr == ""


def test_bench_says_what_is_missing_before_it_is_installed(tmp_path: Path) -> None:
    bench = str(REPOSITORY / "scripts" / "bench")
    # Without site-packages: as the Python of a machine on which nothing was set up.
    reported = run([sys.executable, "-S", bench, "load"], PYTHONPATH="", RLSCOPE_VENV=str(tmp_path))
    assert reported.returncode == 1
    assert reported.stderr.splitlines() == [
        f"error: no rlscope-trace is installed in {tmp_path}",
        "hint: sudo scripts/test does it",
    ]


FUZZ = REPOSITORY / "scripts" / "fuzz"


def test_fuzz_names_the_package_that_clang_lacks(tmp_path: Path) -> None:
    clang = tmp_path / "clang"
    clang.write_text(
        '#!/bin/sh\ncase $1 in -dumpversion) echo 19.1.7 ;; *) echo "${1#*=}" ;; esac\n'
    )
    clang.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    reported = run([sys.executable, str(FUZZ), "spool_records"], PATH=path)
    assert reported.returncode == 1
    error, hint = reported.stderr.splitlines()
    assert error.startswith("error: clang 19 has no libclang_rt.fuzzer-")
    assert hint == "hint: sudo apt-get install libclang-rt-19-dev"


def test_fuzz_refuses_what_it_does_not_know() -> None:
    reported = run([sys.executable, str(FUZZ), "spool_records", "everything"])
    assert reported.returncode == 2
    assert "no such target: everything; there are shim_memory, " in reported.stderr


def test_every_fuzz_target_has_a_harness() -> None:
    reported = run([sys.executable, str(FUZZ), "--list"])
    names = {line.split()[0] for line in reported.stdout.splitlines()}
    folder = REPOSITORY / "tests" / "fuzz"
    harnesses = {path.stem for pattern in ("*.cpp", "*.py") for path in folder.glob(pattern)}
    assert names == harnesses - {"python_target"}
    # An input that broke something once is read by the target whose name its folder has.
    assert {path.name for path in (folder / "corpus").iterdir()} <= names


def test_a_fuzz_target_that_fails_names_its_input_and_how_to_see_it_again(tmp_path: Path) -> None:
    """A stub in place of a target: it says what libFuzzer says, and ends as that does."""
    script = f"""
import sys; from pathlib import Path
sys.path.insert(0, {str(REPOSITORY / "scripts")!r})
from fuzz_lib import running, targets
running.BUILD = targets.BUILD = Path({str(tmp_path)!r})
(targets.BUILD / "native").mkdir()
stub = targets.BUILD / "native" / "elf"
stub.write_text('''#!/bin/sh
echo "#7 NEW cov: 12 ft: 3"
echo "elf.cpp:5:6: runtime error: it broke"
echo "artifact_prefix='x'; Test unit written to $PWD/crashes/elf-crash-1"
exit 77''')
stub.chmod(0o755)
print(*running.run(targets.TARGETS["elf"], 1, []).lines(), sep="\\n")
"""
    reported = run([sys.executable, "-c", script])
    first, *rest = reported.stdout.splitlines()
    assert first.split()[-5:] == ["7", "inputs", "12", "branches", "FAILED"]
    assert rest == [
        "  elf.cpp:5:6: runtime error: it broke",
        f"  input: {tmp_path}/crashes/elf-crash-1",
        f"  again: {tmp_path}/native/elf {tmp_path}/crashes/elf-crash-1",
    ]


def test_a_step_says_when_it_begins_and_how_long_it_took(tmp_path: Path) -> None:
    reported = with_setup(f"LOG_DIR={tmp_path}; step one 'counting' 'count again' seq 3")
    assert reported.returncode == 0
    begins, ends = reported.stdout.splitlines()
    assert begins == "counting ..."
    assert ends.startswith("counting: done in ")
    assert (tmp_path / "one.log").read_text() == "1\n2\n3\n"


def test_a_failed_step_shows_the_end_of_its_log_and_a_hint(tmp_path: Path) -> None:
    lines = f"LOG_DIR={tmp_path}; step two 'counting' 'count again' sh -c 'seq 100; exit 7'; say on"
    reported = with_setup(lines)
    assert reported.returncode == 1
    assert "on" not in reported.stdout.splitlines()
    assert "\n100\n" in reported.stderr
    assert "\n80\n" not in reported.stderr
    assert "error: counting: exit code 7 after " in reported.stderr
    assert reported.stderr.splitlines()[-1] == "hint: count again"


def without_root(tmp_path: Path) -> str:
    """Return a PATH on which `id -u` answers as it does for a user."""
    stub = tmp_path / "id"
    stub.write_text("#!/bin/sh\necho 1000\n")
    stub.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_demo_without_root_names_the_way(tmp_path: Path) -> None:
    reported = run([str(REPOSITORY / "scripts" / "demo")], PATH=without_root(tmp_path))
    assert reported.returncode == 1
    assert reported.stdout == ""
    assert reported.stderr.splitlines()[-1] == "hint: sudo scripts/demo"


@pytest.mark.parametrize("arguments", [["--seconds"], ["--seconds", "x"], ["train.py"]])
def test_demo_refuses_what_it_does_not_understand(arguments: list[str]) -> None:
    reported = run([str(REPOSITORY / "scripts" / "demo"), *arguments])
    assert reported.returncode == 2
    assert f"error: not understood: {' '.join(arguments)}" in reported.stderr


def test_missing_packages_knows_alternatives_and_plus_signs(tmp_path: Path) -> None:
    stub = tmp_path / "dpkg-query"
    stub.write_text("#!/bin/sh\nprintf '%s\\n' 'g++ installed' 'b installed' 'd config-files'\n")
    stub.chmod(0o755)
    reported = with_setup(
        "missing_packages g++ 'a|b' 'c|d' e", PATH=f"{tmp_path}:{os.environ['PATH']}"
    )
    assert reported.stdout.split() == ["c|d", "e"]


def test_find_python_passes_over_one_that_is_too_old(tmp_path: Path) -> None:
    stub = tmp_path / "python3"
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    reported = with_setup("find_python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert reported.returncode == 0
    assert reported.stdout.strip() != str(stub)


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
        reported = with_setup(f"cd {tmp_path}; {change}; source_hash")
        assert reported.returncode == 0
        hashes.append(reported.stdout)
    assert hashes[0] != hashes[1]
    assert hashes[1] == hashes[2]
