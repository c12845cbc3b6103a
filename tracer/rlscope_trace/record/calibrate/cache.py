"""Where the calibration of this machine is kept, so that it is taken once."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace import __version__
from rlscope_trace.outputs.trusted import closing, is_trusted, make_folder
from rlscope_trace.record.machine_speed import cpu_model
from rlscope_trace.spool.costs import Cost, dump_costs, read_costs_from, read_quality
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DIRECTORY_VARIABLE = "RLSCOPE_CALIBRATION_DIR"
# It holds a few words for each cost.
_MOST_CHECKED_BYTES = 1 << 20
_OF_ROOT = Path("/var/cache/rlscope-trace")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class Calibration:
    """The costs on one machine, and when and how they were taken."""

    costs: list[Cost]
    facts: dict[str, object]

    @property
    def is_full(self) -> bool:
        """Whether it was asked for, with all ways of probing: one taken by itself is shorter."""
        return self.facts.get("extent") == "full"

    @property
    def is_empty(self) -> bool:
        """Whether no cost of any event could be measured."""
        return all(cost.mean_ns is None for cost in self.costs)

    def text(self) -> str:
        """Return the contents of its file."""
        return dump_costs(self.costs, self.facts)


def machine_key() -> dict[str, str]:
    """Return what a calibration is valid for: this machine, its CPU and kernel, this version."""
    try:
        identity = _MACHINE_ID.read_text().strip()
    except OSError:
        identity = ""
    # The id itself is not to be published: machine-id(5).
    reported = hashlib.sha256(f"rlscope-trace {identity or platform.node()}".encode()).hexdigest()[
        :16
    ]
    return {
        "machine": reported,
        "cpu": cpu_model(),
        "kernel": f"{platform.release()} {platform.machine()}",
        "tool_version": __version__,
    }


def boot_id() -> str:
    """Return what tells this boot of the machine from any other; "" where that is not known."""
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""


def cache_directory(environ: Mapping[str, str] | None = None, *, euid: int | None = None) -> Path:
    """Return the folder of the cache.

    Of root it is the machine's; under sudo we are the user that called it, and so is the folder.
    """
    env = os.environ if environ is None else environ
    if named := env.get(DIRECTORY_VARIABLE):
        return Path(named).absolute()
    if (os.geteuid() if euid is None else euid) == 0:
        return _OF_ROOT
    # A relative one is to be ignored: XDG Base Directory Specification. Nothing is kept in /tmp,
    # where others could put costs of theirs; /nonexistent is Debian's home of those that have none.
    base, home = (env.get(name, "") for name in ("XDG_CACHE_HOME", "HOME"))
    user_home = Path(home) if home.startswith("/") else Path("/nonexistent")
    folder = Path(base) if base.startswith("/") else user_home / ".cache"
    return folder / "rlscope-trace"


def cache_file(directory: Path, key: Mapping[str, str]) -> Path:
    """Return the file for a key."""
    words = json.dumps(sorted(key.items())).encode()
    return directory / f"calibration-{hashlib.sha256(words).hexdigest()[:16]}.json"


def load(directory: Path, key: Mapping[str, str]) -> tuple[Calibration | None, str]:
    """Return the calibration for a key; None, and why, where there is none that can be used.

    The reason is empty where none was ever taken.
    """
    path = cache_file(directory, key)
    try:
        # Asked of, and read: its folder may be another user's. A pipe is not waited for.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with closing(opened):
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode) or not is_trusted(found.st_uid):
                # Whoever writes the costs decides what is taken off the times.
                return None, f"{path} is no file of ours"
            with os.fdopen(os.dup(opened), "rb") as file:
                costs, facts = read_costs_from(file)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"cannot read {path}: {error.strerror}"
    except ValueError as error:
        return None, f"{path} is damaged: {error}"
    if facts.get("key") != dict(key):
        return None, f"{path} is of another machine"
    return Calibration(costs, facts), ""


def checked(directory: Path, calibration: Calibration) -> Calibration | None:
    """Return it with what contradicted it since the boot; None: nobody has looked yet."""
    try:
        with open_regular(_check_file(directory, calibration)) as file:
            reported = json.loads(file.read(_MOST_CHECKED_BYTES))
        if reported["of"] != _state_of(calibration):
            return None
        pairs = list(zip(calibration.costs, reported["qualities"], strict=True))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    costs = [replace(cost, quality=read_quality(reported)) for cost, reported in pairs]
    return replace(calibration, costs=costs)


def note_checked(directory: Path, calibration: Calibration, found: Sequence[Cost]) -> None:
    """Note the outcome, the costs with what contradicts them. Raises OSError: it is not kept."""
    reported = {"of": _state_of(calibration), "qualities": [asdict(cost.quality) for cost in found]}
    write_whole(_check_file(directory, calibration), json.dumps(reported) + "\n")


def _check_file(directory: Path, calibration: Calibration) -> Path:
    key = calibration.facts["key"]
    assert isinstance(key, dict)
    return cache_file(directory, key).with_suffix(".checked")


def _state_of(calibration: Calibration) -> str:
    """Return what a check holds for: these costs, and this boot of the machine."""
    return hashlib.sha256(f"{boot_id()} {calibration.text()}".encode()).hexdigest()


def save(directory: Path, calibration: Calibration) -> Path:
    """Write the file of a calibration, whole or not at all; return its path. Raises OSError."""
    key = calibration.facts["key"]
    assert isinstance(key, dict)
    make_folder(directory)
    path = cache_file(directory, key)
    write_whole(path, calibration.text())
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees a part of it. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        # A new file, never one that somebody put there.
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
