"""Which cgroups a process is in that have a CPU quota, version 1 and 2."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")


def quota_folders(pid: int) -> list[Path]:
    """Return the folders of its cgroup and of those around it that have a CPU quota, inner first.

    None where it has ended, or where its cgroup is not to be seen from here, as from a container.
    """
    try:
        memberships = (PROC / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return []
    return list(_folders_of(memberships))


@lru_cache(maxsize=64)
def _folders_of(memberships: str) -> tuple[Path, ...]:
    """Return them of a /proc/PID/cgroup; remembered, as a process seldom moves."""
    try:
        mounts = (PROC / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ()
    found = []
    for line in memberships.splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers or "cpu" in controllers.split(","):
            for folder, root in _mounted(mounts, is_v2=not controllers):
                found += [*_upwards(folder, root, path)]
    return tuple(folder for folder in dict.fromkeys(found) if _has_quota(folder))


def _mounted(mounts: list[str], *, is_v2: bool) -> Iterator[tuple[Path, str]]:
    """Yield where a hierarchy is mounted, and which of its folders is there."""
    for line in mounts:
        fields, words = line.partition(" - ")[0].split(), line.partition(" - ")[2].split()
        kind, options = (words[0], words[-1].split(",")) if words else ("", [])
        is_it = kind == "cgroup2" if is_v2 else kind == "cgroup" and "cpu" in options
        if is_it and len(fields) > 4:
            yield Path(fields[4]), fields[3]


def _upwards(mount: Path, root: str, path: str) -> Iterator[Path]:
    """Yield the folder of a cgroup, then those around it, as far as they are mounted."""
    inside = path if root == "/" else path.removeprefix(root)
    if ".." in path.split("/") or not f"{path}/".startswith("/" if root == "/" else f"{root}/"):
        return
    folder = mount / inside.strip("/")
    yield folder
    while folder != mount:
        folder = folder.parent
        yield folder


def _has_quota(folder: Path) -> bool:
    try:
        if (folder / "cpu.max").exists():
            return not (folder / "cpu.max").read_text().startswith("max")
        return int((folder / "cpu.cfs_quota_us").read_text()) > 0
    except (OSError, ValueError):
        return False
