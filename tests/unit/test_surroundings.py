"""What is read of where a program runs: only what is meant, of the shape that is meant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.record import surroundings
from rlscope_trace.record.machine_speed import cpu_model, probe_machine
from rlscope_trace.record.surroundings import Surroundings, chosen_variables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMIT, OTHER = "0123456789abcdef" * 2 + "01234567", "f" * 40


def test_variables_are_a_fixed_list_without_paths() -> None:
    environment = {
        "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "0,1", "MKL_NUM_THREADS": "2",
        "AWS_SECRET_ACCESS_KEY": "x", "OMP_NUM_THREADS_TOKEN": "y", "HOME": "/opt/a",
        "MALLOC_CONF": "/opt/a/secret", "GOMP_CPU_AFFINITY": "0\x1b[31m",
        "PYTHONHASHSEED": "1" * 101, "WANDB_API_KEY": "z",
    }  # fmt: skip
    assert chosen_variables(environment) == {
        "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "0,1", "MKL_NUM_THREADS": "2",
    }  # fmt: skip


def plain(git: Path) -> None:
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text(f"{COMMIT}\n")


def detached(git: Path) -> None:
    git.mkdir()
    (git / "HEAD").write_text(f"{COMMIT}\n")


def packed(git: Path) -> None:
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/a/b-c.d\n")
    (git / "packed-refs").write_text(
        f"# pack-refs with: peeled\n{OTHER} refs/heads/main\n{COMMIT} refs/heads/a/b-c.d\n"
    )


def worktree(git: Path) -> None:
    common = git.parent.parent / "repository"
    plain(common)
    own = common / "worktrees/x"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    git.write_text(f"gitdir: {own}\n")


def no_commit(git: Path) -> None:
    git.mkdir()
    (git / "HEAD").write_text("root:x:0:0:root\n")


def linked(git: Path) -> None:
    git.mkdir()
    (git.parent / "secret").write_text(f"{COMMIT}\n")
    (git / "HEAD").symlink_to(git.parent / "secret")


def upwards(git: Path) -> None:
    git.mkdir()
    (git.parent.parent / "secret").write_text(f"{COMMIT}\n")
    (git / "HEAD").write_text("ref: refs/heads/../../../../secret\n")


def pipe(git: Path) -> None:
    git.mkdir()
    os.mkfifo(git / "HEAD")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (plain, COMMIT), (detached, COMMIT), (packed, COMMIT), (worktree, COMMIT),
        (no_commit, None), (linked, None), (upwards, None), (pipe, None),
    ],
)  # fmt: skip
def test_the_revision_is_a_commit_or_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path], None],
    expected: str | None,
) -> None:
    """Of the folder that the program is in, or of one above; git itself is not run."""
    folder = tmp_path / "project/deep"
    folder.mkdir(parents=True)
    make(tmp_path / "project/.git")
    # Above it is none: what lies there belongs to whoever runs this.
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text(f"{OTHER}\n")
    monkeypatch.chdir(folder)
    found = Surroundings(os.getpid())
    try:
        found.look()
    finally:
        found.close()
    assert found.facts.get("git_revision") == (expected or OTHER)
    assert found.facts["cpus"]


@pytest.mark.parametrize(
    ("limits", "quota"), [((), None), (("max 100000",), None), (("50000 100000", "max 1"), 0.5)]
)
def test_the_smallest_quota_of_its_cgroups_is_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[str, ...], quota: float | None
) -> None:
    folders = [tmp_path / str(at) for at in range(len(limits))]
    for folder, limit in zip(folders, limits, strict=True):
        folder.mkdir()
        (folder / "cpu.max").write_text(f"{limit}\n")
    monkeypatch.setattr(surroundings, "quota_folders", lambda _: folders)
    found = Surroundings(os.getpid())
    try:
        found.look()
    finally:
        found.close()
    assert found.facts["cpu_quota"] == quota


def test_a_process_that_has_ended_has_no_facts() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    found = Surroundings(child)
    try:
        found.look()
        assert found.variables() == {}
    finally:
        found.close()
    assert set(found.facts) <= {"gpu_driver", "cpu_quota"}


def test_the_probes_of_the_machine() -> None:
    found = probe_machine()
    assert found["launch_ns"] is None
    assert found["copy_mb_s"] is None
    assert isinstance(found["cpu"], str)
    assert isinstance(found["deflate"], str)
    speeds = [found[name] for name in ("single_core_mb_s", "memory_mb_s", "wake_up_ns")]
    assert all(isinstance(speed, (int, float)) and speed > 0 for speed in speeds)


def test_a_cpu_has_a_name_or_numbers(tmp_path: Path) -> None:
    """On aarch64 /proc/cpuinfo has no name; its first CPU speaks for all."""
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nCPU part\t: 1\n")
    assert cpu_model(path) == "Some CPU @ 2 GHz"
    part = "CPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: {}\n\n"
    path.write_text(part.format("0xd0c") + part.format("0xd40"))
    assert cpu_model(path) == "CPU implementer 0x41, CPU part 0xd0c, CPU variant 0x1"
    path.write_text("processor\t: 0\n")
    assert cpu_model(path) == cpu_model(tmp_path / "absent") == "not known"
