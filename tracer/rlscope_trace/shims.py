"""What a launched program is given so that it tells of its operations: the shim and its settings.

The shim is a library that NVTX loads into every process that uses it, because the environment says
so; the phases of programs that mark nothing come from Python code found through PYTHONPATH. Both
are inherited by the processes that the program starts. No file of the user is touched.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import UsageError
from rlscope_trace.privileges import may_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlscope_trace.privileges import Identity

FOLDER = Path(__file__).absolute().parent / "shim"
LIBRARY = FOLDER / "librlscope_shim.so"
PYTHON_FOLDER = FOLDER / "python"

# What is listened to on request only, by the beginning of the library's name: filter.c of cupti/.
MODULES = (
    "cublas", "cudnn", "cufft", "cufile", "cupti", "curand", "cusolver", "cusparse", "nvshmem",
    "npp", "nvjpeg",
)  # fmt: skip
EVERY_MODULE = "all"

TAKEN = "another recorder reads the operations of this process"

_NVTX = "NVTX_INJECTION64_PATH"
_CUDA = "CUDA_INJECTION64_PATH"


@dataclass(frozen=True, slots=True)
class Injection:
    """The environment of a program that tells of its operations, as far as that can be had."""

    environment: dict[str, str]
    measured: bool
    reason: str
    """How operations are recorded, or why they are not."""


def new_session() -> str:
    """Return the name of the abstract unix socket of a recording, which nobody else has."""
    return f"rlscope-{os.getpid()}-{secrets.token_hex(8)}"


def parse_modules(value: str) -> str:
    """Return a list of modules as RLSCOPE_NVTX takes it; UsageError where one is not known."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    if words == [EVERY_MODULE]:
        return EVERY_MODULE
    unknown = [word for word in words if word not in MODULES]
    if unknown:
        raise UsageError(
            f"--nvtx {', '.join(map(repr, unknown))}: not known",
            hint=f"--nvtx all, off, or some of {','.join(MODULES)}",
        )
    return ",".join(words)


def inject(  # noqa: PLR0913 - all by name
    environment: Mapping[str, str],
    *,
    session: str,
    auto: bool,
    modules: str,
    program: Path | None,
    identity: Identity | None,
) -> Injection:
    """Return the environment with the shim in it; settings of the user's own are left alone.

    modules: what else to listen to, as RLSCOPE_NVTX takes it. program: the file to run, if known.
    identity: the user it will run as, None: ours.
    """
    unchanged = dict(environment)
    obstacle = _obstacle(environment, program, identity)
    if obstacle is not None:
        return Injection(unchanged, measured=False, reason=obstacle)
    changed = {
        **environment,
        _NVTX: str(LIBRARY),
        "RLSCOPE_SESSION": session,
        "RLSCOPE_NVTX": modules,
    }
    # The GPU half: whoever set this has a tool of their own there.
    changed.setdefault(_CUDA, str(LIBRARY))
    if not auto:
        return Injection(changed, measured=True, reason="NVTX ranges; --no-auto: no phases")
    changed["RLSCOPE_AUTO"] = "1"
    path = environment.get("PYTHONPATH")
    changed["PYTHONPATH"] = f"{PYTHON_FOLDER}{os.pathsep}{path}" if path else str(PYTHON_FOLDER)
    return Injection(changed, measured=True, reason="NVTX ranges, and phases found automatically")


def late_environment(session: str, modules: str) -> dict[str, str]:
    """Return what a process gets into which the shim is loaded while it runs."""
    return {"RLSCOPE_SESSION": session, "RLSCOPE_NVTX": modules}


def _obstacle(
    environment: Mapping[str, str], program: Path | None, identity: Identity | None
) -> str | None:
    """Return why the program cannot be made to tell of its operations, or None."""
    if not LIBRARY.exists():
        return f"this installation lacks {LIBRARY.name}: reinstall rlscope-trace"
    if identity is not None and not may_read(LIBRARY, identity.uid, identity.groups):
        return f"user {identity.uid} may not read {LIBRARY}: install it where every user can"
    other = environment.get(_NVTX)
    if other is not None and Path(other) != LIBRARY:
        return f"another tool listens to NVTX: {_NVTX} is {other}; unset it to record operations"
    if program is not None and is_static(program):
        return f"{program.name} is statically linked: no library can be loaded into it"
    return None


def is_static(program: Path) -> bool:
    """Tell whether a file is an ELF program without a dynamic loader."""
    try:
        with program.open("rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02" or len(head) < 64:
                return False
            offset = int.from_bytes(head[32:40], "little")
            size = int.from_bytes(head[54:56], "little")
            count = int.from_bytes(head[56:58], "little")
            file.seek(offset)
            table = file.read(size * count)
    except OSError:
        return False
    kinds = [int.from_bytes(table[size * row : size * row + 4], "little") for row in range(count)]
    # PT_INTERP: what a program has that asks for the dynamic loader.
    return bool(kinds) and 3 not in kinds
