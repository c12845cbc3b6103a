"""What a comparison has to know of where a program ran: versions, limits, revision, speed.

Read from outside: no code runs in the target, nothing of it is run, no git. Folders that a program
serves (FUSE) are not looked into: whoever asks there waits for as long as that program likes, and
cannot even be killed. All else is asked for in a thread that can be left behind. Of environment
variables only those below are kept, of files only what has the shape of a version or a revision.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.confinement import reading_as_ourselves
from rlscope_trace.record.bounded import Bounded
from rlscope_trace.record.cgroups import quota_folders
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# What decides how fast a program is, and tells nothing of who runs it.
_VARIABLES = re.compile(
    r"OMP_(NUM_THREADS|WAIT_POLICY|PROC_BIND|PLACES|DYNAMIC|SCHEDULE|THREAD_LIMIT)"
    r"|(MKL|OPENBLAS|NUMEXPR|VECLIB_MAXIMUM|BLIS|RAYON|TF_NUM_INTRAOP|TF_NUM_INTEROP)_(NUM_)?THREADS"
    r"|KMP_(BLOCKTIME|AFFINITY)|GOMP_(SPINCOUNT|CPU_AFFINITY)|MALLOC_(ARENA_MAX|CONF)"
    r"|CUDA_(VISIBLE_DEVICES|LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS|MODULE_LOADING)"
    r"|(PYTORCH_CUDA_ALLOC|PYTORCH_ALLOC)_CONF|NVIDIA_TF32_OVERRIDE|NCCL_(P2P|SHM|IB)_DISABLE"
    r"|PYTHON(HASHSEED|OPTIMIZE|MALLOC|_GIL|DEVMODE)|XLA_PYTHON_CLIENT_(PREALLOCATE|MEM_FRACTION)"
    r"|JAX_(PLATFORMS|ENABLE_X64)|TORCH(DYNAMO_DISABLE|INDUCTOR_MAX_AUTOTUNE)"
)
_MOST_LETTERS, _MOST_ENVIRONMENT = 100, 1 << 20
_VALUE = re.compile(r"[\w.,:;=+/ \-]*")
# When a program has loaded what it needs, it is looked at again: seconds after the start.
_LOOK_AFTER_S = (1, 4, 12, 40)
_MOST_MAPS, _MOST_ENTRIES, _MOST_FOLDERS = 4 << 20, 20_000, 12
_PYTHON = re.compile(r"/(?:lib)?python(\d\.\d+)(?:\.so[.\d]*)?$")
_DISTRIBUTION = re.compile(
    r"(torch|numpy|gymnasium|jax|jaxlib|stable_baselines3|nvidia_cuda_runtime(?:_cu\d+)?)"
    r"-([\w.+!]{1,40})\.dist-info"
)
_DRIVER = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"Kernel Module[^\n]*?\s(\d+\.\d+[.\d]*)\s")
_REVISION = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH = re.compile(r"ref: (refs/heads/[\w\-]+(?:[./][\w\-]+)*)\s*")
_SMALL_FILE = 4 << 20
# How mountinfo writes spaces and the like.
_ESCAPED = re.compile(r"\\([0-7]{3})")


def chosen_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a comparison may know, with values that are no text of anybody."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if _VARIABLES.fullmatch(name)
        and len(value) <= _MOST_LETTERS
        and _VALUE.fullmatch(value)
        # No path: it may hold the name of a user.
        and not value.startswith(("/", "~"))
    }


class Surroundings:
    """Collects the facts of the first process of a target; never raises."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start_s = time.monotonic()
        self._looks = list(_LOOK_AFTER_S)
        self._bounded = Bounded(patience_s=1)
        self.facts: dict[str, str | float | None] = {}

    def look(self) -> None:
        """Read what does not change while it runs; versions follow from what it loads later."""
        for work in (self._limits, self._revision, self._driver):
            self._attempt(work)

    def look_when_due(self) -> None:
        """Read which versions it has loaded by now, a few times."""
        if self._looks and time.monotonic() - self._start_s >= self._looks[0]:
            del self._looks[0]
            self._attempt(self._versions)

    def variables(self) -> dict[str, str]:
        """Return the variables that it was started with."""
        found: dict[str, str] = {}

        def read() -> None:
            block = _capture.shown_memory(self._pid, "environ", _MOST_ENVIRONMENT)
            pairs = (part.partition(b"=") for part in block.split(b"\0"))
            found.update({os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs})

        self._attempt(read)
        return chosen_variables(found)

    def close(self) -> None:
        """End the thread that reads."""
        self._bounded.close()

    def _attempt(self, work: Callable[[], None]) -> None:
        with suppress(OSError, ValueError):
            self._bounded.call(work)

    def _limits(self) -> None:
        for line in Path(f"/proc/{self._pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                self.facts["cpus"] = line.partition(":")[2].strip()
        quotas = [cpus for folder in quota_folders(self._pid) for cpus in _quota_cpus(folder)]
        # In CPUs; None: there is none.
        self.facts["cpu_quota"] = min(quotas, default=None)

    def _driver(self) -> None:
        if found := _DRIVER_VERSION.search(_DRIVER.read_text(errors="replace")):
            self.facts["gpu_driver"] = found[1]

    def _revision(self) -> None:
        folder = Path(f"/proc/{self._pid}/cwd").readlink()
        if _is_served(folder):
            return
        # A link there may lead to a file that only root can read, and a key looks like a revision.
        with reading_as_ourselves():
            for above in islice((folder, *folder.parents), _MOST_FOLDERS):
                if revision := _revision_in(above / ".git"):
                    self.facts["git_revision"] = revision
                    return

    def _versions(self) -> None:
        with Path(f"/proc/{self._pid}/maps").open("rb") as file:
            maps = file.read(_MOST_MAPS).decode(errors="replace")
        paths = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}
        for path in (*sorted(paths), str(Path(f"/proc/{self._pid}/exe").readlink())):
            if found := _PYTHON.search(path):
                self.facts["python"] = found[1]
        inside = (path.partition("/site-packages/") for path in paths)
        for folder in islice(sorted({before for before, found, _ in inside if found}), 2):
            self._packages(Path(folder) / "site-packages")

    def _packages(self, folder: Path) -> None:
        if _is_served(folder):
            return
        with reading_as_ourselves(), os.scandir(folder) as entries:
            for entry in islice(entries, _MOST_ENTRIES):
                if found := _DISTRIBUTION.fullmatch(entry.name):
                    self.facts[found[1]] = found[2]


def _quota_cpus(folder: Path) -> Iterable[float]:
    """Yield how many CPUs a cgroup may use, of version 2 or 1."""
    with suppress(OSError, ValueError):
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        yield int(quota) / int(period)


def _is_served(path: Path) -> bool:
    """Tell, without asking there, whether a program serves a file system on the way to a path."""
    with Path("/proc/self/mountinfo").open(errors="surrogateescape") as file:
        for line in file:
            own, _, source = line.partition(" - ")
            kind, point = source.partition(" ")[0], own.split(" ")[4]
            if kind.startswith("fuse") and kind != "fusectl":
                mounted = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)
                if path.is_relative_to(mounted):
                    return True
    return False


def _revision_in(git: Path) -> str | None:
    """Return the commit that a work tree is at; None: there is none, or nothing of its shape."""
    with suppress(OSError, ValueError, StopIteration):
        common = git
        if not git.is_dir():
            # A work tree beside the repository says where its own part of that is.
            git = git.parent / _text(git).removeprefix("gitdir:").strip()
            if _is_served(git):
                return None
            common = git / _text(git / "commondir").strip()
        head = _text(git / "HEAD")
        if found := _BRANCH.fullmatch(head):
            with suppress(OSError):
                head = _text(common / found[1])
            if not _REVISION.fullmatch(head.strip()):
                packed = (line.split() for line in _text(common / "packed-refs").splitlines())
                head = next(words[0] for words in packed if words[1:] == [found[1]])
        if _REVISION.fullmatch(head.strip()):
            return head.strip()
    return None


def _text(path: Path) -> str:
    with open_regular(path) as file:
        return file.read(_SMALL_FILE).decode(errors="replace")
