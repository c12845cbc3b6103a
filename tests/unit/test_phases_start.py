"""What the folder on PYTHONPATH does to a program before it begins: next to nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import phases_harness
from phases_harness import Harness


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def python(
    harness: Harness, text: str, *paths: Path, ours: bool = True, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with our folder on PYTHONPATH, or without it for comparison."""
    environment = harness.environment(None, *paths)
    if not ours:
        del environment["RLSCOPE_AUTO"]
        environment["PYTHONPATH"] = ":".join(map(str, paths))
    return subprocess.run(
        [sys.executable, "-c", text], env={**environment, **extra}, capture_output=True, text=True
    )


def test_path_is_left_as_it_was(harness: Harness, tmp_path: Path) -> None:
    text = "import sys; print(sys.path)"
    with_ours = python(harness, text, tmp_path)
    without = python(harness, text, tmp_path, ours=False)
    assert with_ours.stdout == without.stdout
    assert with_ours.stderr == ""


def test_children_are_looked_at_too(harness: Harness) -> None:
    child = "import sys; print('rlscope_phases' in sys.modules)"
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert python(harness, text).stdout == "True\n"


def test_nothing_else_is_imported(harness: Harness) -> None:
    text = "import sys; print(*sorted(sys.modules))"
    with_ours = set(python(harness, text).stdout.split())
    without = set(python(harness, text, ours=False).stdout.split())
    assert with_ours - without <= {
        "rlscope_phases", "rlscope_phases.starting", "rlscope_phases.finder", "sitecustomize",
    }  # fmt: skip
    assert "rlscope_phases.finder" in with_ours


def test_nothing_is_done_unless_asked(harness: Harness) -> None:
    text = "import sys; print(any('rlscope' in name for name in sys.modules), len(sys.meta_path))"
    without = python(harness, text, ours=False)
    assert python(harness, text, RLSCOPE_AUTO="0").stdout == without.stdout
    assert without.stdout.startswith("False")


@pytest.mark.parametrize(
    "content",
    [
        "import sys; sys.users = 'ran'; print('users', __name__)",
        "raise ValueError('users')",
        "import users_missing_module",
        "raise SystemExit(3)",
        "def broken(:",
    ],
)
def test_users_sitecustomize_runs_as_ever(harness: Harness, tmp_path: Path, content: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(content + "\n")
    text = "import sys, sitecustomize; print(sitecustomize.__file__)"
    with_ours = python(harness, text, tmp_path)
    without = python(harness, text, tmp_path, ours=False)
    assert with_ours.returncode == without.returncode
    assert with_ours.stdout == without.stdout
    assert without.stdout or without.stderr
    assert with_ours.stderr.splitlines()[-1:] == without.stderr.splitlines()[-1:]


def status_of(harness: Harness, folder: Path, text: str) -> str:
    environment = harness.environment(None)
    environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.strip()


ADAPT = (
    "import rlscope_phases, types, rlscope_phases.finder as finder\n"
    "finder.adapt('torch', types.ModuleType('torch'))\n"
    "print(rlscope_phases.status)"
)


def test_no_tool_is_said(harness: Harness) -> None:
    assert status_of(harness, harness.folder, ADAPT) == "no_tool"


def test_module_that_cannot_be_loaded_switches_phases_off(harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "python"
    shutil.copytree(harness.folder, folder)
    for library in (folder / "rlscope_phases").glob("_nvtx*.so"):
        library.write_bytes(b"not a library")
    assert status_of(harness, folder, ADAPT).startswith("native_not_loaded\t")


def test_damaged_package_disturbs_nobody(harness: Harness, tmp_path: Path) -> None:
    folder = tmp_path / "python"
    shutil.copytree(harness.folder, folder)
    (folder / "rlscope_phases" / "__init__.py").write_text("raise RuntimeError('damaged')\n")
    assert status_of(harness, folder, "print('alive')") == "alive"
