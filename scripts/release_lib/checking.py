"""Tries what is in dist/ in bare roots, and prints the matrix."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from release_lib import in_pod, machines, pythons, roots
from release_lib.parts import sha256
from release_lib.running import DIST, REPOSITORY, WORK, ReleaseError, only_one, say
from release_lib.wheel_file import built_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_STEPS = ("installs", "imports", "records", "is_true", "summarizes", "reads", "exports")
# A build without what records, with the least that it needs; and one with what README.md names.
_LEAST = ("g++", "zlib1g-dev", "rapidjson-dev", "python3-dev", "python3-venv")
_SDIST_ROOT = "bookworm"
# Those of another machine are asked for by name: qemu takes its time.
DEFAULT = tuple(name for name, root in roots.ROOTS.items() if root.machine == machines.HERE)
_FAIL_SECONDS = 5
_LAYOUT_ROOT = "bookworm"
# Of the time recorded, which a program that only computes runs, whatever else the machine does.
_BUSY = 0.05
# Of the samples of it, those that have a Python function: not those of its start-up.
_NAMED = 0.5


def check(names: Sequence[str], *, sdist: bool) -> int:
    """Try all in all roots; returns 1 where something does not work that should."""
    begun = time.monotonic()
    require_one_source()
    shared = _shared()
    rows, failed = [], False
    for name in names:
        root = roots.make(name)
        for python in roots.ROOTS[name].pythons:
            row = _try_wheel(name, root, python, shared)
            rows.append(row)
            failed |= row[-1] != "ok"
    _print_matrix(rows)
    if _LAYOUT_ROOT in names:
        failed |= not _try_layouts(shared)
        failed |= not _try_containers(shared)
    if sdist:
        failed |= not _try_sdist(shared)
    say(f"checked in {time.monotonic() - begun:.0f} s")
    return 1 if failed else 0


def require_one_source() -> None:
    """Raise ReleaseError where a wheel in dist/ was not built of the source archive beside it."""
    archive = only_one(DIST, "*.tar.gz")
    for wheel in DIST.glob("*.whl"):
        if built_of(wheel) != sha256(archive):
            raise ReleaseError(f"{wheel.name} is of other sources than {archive.name}: build again")


def _shared() -> Path:
    """Return a folder with all that is tried."""
    shared = WORK / "shared"
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    for path in (*DIST.iterdir(), REPOSITORY / "scripts/release_lib/in_root.py"):
        shutil.copy2(path, shared)
    return shared


def _wheels(shared: Path, python: str, machine: str) -> list[Path]:
    return list(shared.glob(f"*-cp{python.replace('.', '')}-*_{machine}.whl"))


def _try_wheel(name: str, root: Path, python: str, shared: Path) -> list[str]:
    shown = [roots.ROOTS[name].shown, python]
    log = WORK / f"logs/check-{name}.log"
    machine = roots.ROOTS[name].machine
    wheels = _wheels(shared, python, machine)
    if not wheels:
        return [*shown, *("",) * len(_STEPS), "", "no wheel"]
    roots.install(root, f"python{python}", f"python{python}-venv", log=log)
    # qemu runs programs, and lets none load BPF programs.
    kind = "full" if machine == machines.HERE else "emulated"
    roots.require_emulation(machine)
    reported = _trial(root, f"python{python}", f"/mnt/shared/{wheels[0].name}", kind, shared)
    said, failures = reported["said"], reported["failures"]
    for step, text in failures.items():
        say(f"--- {' '.join(shown)}: {step} failed:\n{text}")
    cells = [_cell(said.get(step)) for step in _STEPS]
    if said["has"]:
        failures["bare"] = f"the root is not bare: {said['has']}"
        say(f"--- {' '.join(shown)}: {failures['bare']}")
    return [*shown, *cells, str(said.get("first_summary_s", "")), ", ".join(failures) or "ok"]


def _try_layouts(shared: Path) -> bool:
    """Install a wheel as uv, pipx, Poetry and conda do, and record by sudo as their hint says."""
    root = roots.copy_of(roots.make(_LAYOUT_ROOT), "layouts")
    log = WORK / "logs/check-layouts.log"
    roots.install(root, "python3", "python3-venv", "sudo", "passwd", log=log)
    wheel = only_one(shared, f"*-cp311-*_{machines.HERE}.whl")
    trials = [("python3", wheel, "layouts"), *_prefix(root, shared)]
    good, cells = True, []
    for python, package, kind in trials:
        reported = _trial(root, python, f"/mnt/shared/{package.name}", kind, shared)
        for step, text in reported["failures"].items():
            say(f"--- {step} failed:\n{text}")
        tried = {name: works for name, works in reported["said"].items() if isinstance(works, bool)}
        cells += [f"{name} {_cell(works)}" for name, works in tried.items()]
        good &= not reported["failures"]
    say(f"layouts of environments: {', '.join(cells)}")
    return good


def _prefix(root: Path, shared: Path) -> list[tuple[str, Path, str]]:
    """Return what to try in a prefix like conda's, whose Python is put into the root."""
    wheels = {name: _wheels(shared, name, machines.HERE) for name in pythons.VERSIONS}
    python = pythons.movable([name for name in wheels if wheels[name]], root / "opt/prefix")
    if python is None:
        say("a prefix like conda's: not tried, as there is no CPython but the distribution's here")
        return []
    (wheel,) = wheels[python.name.removeprefix("python")]
    return [(f"/{python.relative_to(root)}", wheel, "prefix")]


def _try_containers(shared: Path) -> bool:
    """Record in containers: what the recorder is, and what it may, in each case of in_pod.py."""
    bare, log = roots.make(_LAYOUT_ROOT), WORK / "logs/check-containers.log"
    recorder, program = roots.copy_of(bare, "recorder"), roots.copy_of(bare, "program")
    wheel = only_one(shared, f"*-cp311-*_{machines.HERE}.whl")
    roots.install(recorder, "python3", "python3-venv", log=log)
    roots.install(program, "python3", log=log)
    for words in (
        ("python3", "-m", "venv", "/venv"),
        ("/venv/bin/pip", "install", f"/mnt/shared/{wheel.name}"),
    ):
        roots.enter(recorder, *words, shared=shared, log=log)
    good = True
    for name, case in in_pod.CASES.items():
        one = recorder if case.sees == "launches it" else program
        words = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork",
                 "--kill-child", sys.executable, in_pod.__file__, name, recorder, one)  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        works = found.get("processes") == 1 and found["running"] > _BUSY
        works = works and found["functions"] > _NAMED * found["samples"]
        works = works and (found["calls"] > 0) == case.has_calls
        user = "root" if case.user == 0 else "the program's user"
        outcome = "yes" if works else f"no: {found or done.stderr}"
        if works:
            outcome += f", a function in {found['functions']} of {found['samples']} samples"
            outcome += f", {found['calls']} calls"
        say(f"container: {case.sees}; recorder is {user}, {case.capabilities.upper()}: {outcome}")
        good &= works
    return good


def _cell(works: bool | None) -> str:
    """Return what the matrix has of a step; nothing where it was not tried."""
    return "" if works is None else "yes" if works else "no"


def _trial(root: Path, python: str, package: str, kind: str, shared: Path, **env: str) -> Any:  # noqa: ANN401
    words = roots.entering(
        root, python, "/mnt/shared/in_root.py", python, package, kind, shared=shared, **env
    )
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise ReleaseError(f"{root.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}") from None


def _print_matrix(rows: Sequence[Sequence[str]]) -> None:
    heads = ["root", "Python", *_STEPS, "s to the first summary", "outcome"]
    say(f"| {' | '.join(heads)} |")
    say(f"|{' --- |' * len(heads)}")
    for row in rows:
        say(f"| {' | '.join(row)} |")


def _try_sdist(shared: Path) -> bool:
    """Install the source archive with too little, with the least, and with what README.md names."""
    archive = only_one(DIST, "*.tar.gz")
    log = WORK / "logs/check-sdist.log"
    path = f"/mnt/shared/{archive.name}"
    switch = "RLSCOPE_RECORDER"
    bare = roots.make(_SDIST_ROOT)
    roots.install(bare, "python3", "python3-venv", log=log)
    reported = _trial(bare, "python3", path, "full", shared)
    text = reported["failures"].get("installs", "")
    line = next((line for line in text.splitlines() if "hint: sudo apt-get" in line), None)
    took = reported["said"]["installs_s"]
    say(f"source archive in a bare root: {took} s, {line and line.strip()}")
    good = line is not None and "g++" in line and took <= _FAIL_SECONDS
    for packages, kind, recorder in (
        (_LEAST, "reading", "off"),
        (_of_readme(), "full", "auto"),
    ):
        root = roots.copy_of(bare, kind)
        roots.install(root, "python3-venv", *packages, log=log)
        reported = _trial(root, "python3", path, kind, shared, RLSCOPE_RECORDER=recorder)
        for step, text in reported["failures"].items():
            say(f"--- source archive, RLSCOPE_RECORDER={recorder}: {step} failed:\n{text}")
        outcome = ", ".join(reported["failures"]) or "ok"
        took = reported["said"]["installs_s"]
        say(f"source archive, {switch}={recorder}, {' '.join(packages)}: {took} s, {outcome}")
        good &= not reported["failures"]
    return good


def _of_readme() -> list[str]:
    text = (REPOSITORY / "README.md").read_text()
    (line,) = [line for line in text.splitlines() if "sudo apt-get install g++" in line]
    return line.split("install ")[1].split()
