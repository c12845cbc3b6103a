"""Has a launched program profile itself by the profiler of JAX, for a while (--jax-profile).

The shim's Python package begins and ends the profile inside of the program: nothing but JAX sees
into what it has compiled. What it writes is read by `rlscope-trace import xplane`.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_HINT = "--jax-profile 30:2 profiles the two seconds that begin 30 s after JAX was imported"
_WINDOW = re.compile(r"(\d{1,6}(?:\.\d{1,3})?):(\d{1,4}(?:\.\d{1,3})?)", re.ASCII)
# Longer ones are what JAX itself drops: it keeps about a million events.
_MOST_SECONDS = 60.0
# Of each process there is a folder, and in it what JAX makes: plugins/profile/TIME/HOST.xplane.pb.
_PROFILES = "*/plugins/profile/*/*.xplane.pb"
_MOST_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class JaxProfile:
    """When to profile, in seconds from the import of JAX, and for how long."""

    from_s: float
    seconds: float

    def variable(self, folder: Path) -> str:
        """Return what RLSCOPE_JAX_PROFILE holds for the program."""
        return f"{self.from_s:g}:{self.seconds:g}:{folder}"


def parse_window(text: str) -> JaxProfile:
    """Return FROM:SECONDS; UsageError where it is none."""
    found = _WINDOW.fullmatch(text)
    window = None if found is None else JaxProfile(float(found[1]), float(found[2]))
    if window is None or not 0 < window.seconds <= _MOST_SECONDS:
        raise UsageError(
            f"--jax-profile {text!r}: FROM:SECONDS, at most {_MOST_SECONDS:g} s", hint=_HINT
        )
    return window


def folder_beside(output: Path) -> Path:
    """Return where the profiles of a recording go."""
    return output.with_suffix(".jax")


def count_profiles(folder: Path) -> int:
    """Return how many profiles there are; 0 where none can be seen."""
    try:
        return sum(1 for _ in itertools.islice(folder.glob(_PROFILES), _MOST_COUNTED))
    except OSError:
        return 0
