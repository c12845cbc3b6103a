"""What a launched program is given so that it reports its operations and of its GPUs.

The shim is a library that NVTX and the CUDA driver load into every process that uses them, because
the environment says so; the phases of programs that mark nothing come from Python code found
through PYTHONPATH. Both are inherited by the processes that the program starts. No file of the user
is touched.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.errors import UsageError
from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.privileges import may_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlscope_trace import _capture
    from rlscope_trace.privileges import Identity

LIBRARY = SHIM_FOLDER / "librlscope_shim.so"
PYTHON_FOLDER = SHIM_FOLDER / "python"

# What is listened to on request only, by the beginning of the library's name: filter.c of cupti/.
MODULES = (
    "cublas", "cudnn", "cufft", "cufile", "cupti", "curand", "cusolver", "cusparse", "nvshmem",
    "npp", "nvjpeg",
)  # fmt: skip
EVERY_MODULE = "all"

NVTX_OFF = "off"

# Of the table of what a program loads; the OS kernel runs none with more.
_MOST_SEGMENTS_BYTES = 1 << 16

_NVTX = "NVTX_INJECTION64_PATH"
_CUDA = "CUDA_INJECTION64_PATH"
_OWN_PHASES = "RLSCOPE_PHASES"
_JAX_PROFILE = "RLSCOPE_JAX_PROFILE"
_SESSION = re.compile(r"[A-Za-z0-9_-]{8,60}", re.ASCII)
TAKEN = Fact("other_recorder")
NOT_ASKED_FOR = Fact("not_asked_for", "--nvtx off")


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """How GPU activity is recorded."""

    cupti: str = "on"
    """on; yield: CUPTI is left to another tool; off."""
    graphs: str = "graph"
    """A CUDA graph is one activity; or node: one for each of its kernels."""
    has_memory: bool = False
    """Whether allocations of memory are recorded."""

    def environment(self) -> dict[str, str]:
        """Return the variables by which the shim is told."""
        reported = {"RLSCOPE_CUPTI": self.cupti, "RLSCOPE_CUDA_GRAPHS": self.graphs}
        return {**reported, "RLSCOPE_CUDA_MEMORY": "1"} if self.has_memory else reported

    def refusal(self) -> Fact | None:
        """Return why the user does not want GPU activity from CUPTI, or None."""
        if self.cupti == "on":
            return None
        if self.cupti == "yield":
            return Fact("cupti_yielded")
        return Fact("not_asked_for", f"--cupti {self.cupti}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something is recorded; how, or why not."""

    measured: bool
    fact: Fact

    def to_json(self) -> dict[str, object]:
        """Return it as session.json holds it."""
        return {"measured": self.measured, "fact": self.fact.to_json()}


@dataclass(frozen=True, slots=True)
class Injection:
    """The environment of a program that tells of itself, as far as that can be had."""

    environment: dict[str, str]
    operations: Verdict
    gpu: Verdict


def new_session() -> str:
    """Return the name of the abstract unix socket of a recording, which nobody else has."""
    return f"rlscope-{os.getpid()}-{secrets.token_hex(8)}"


def checked_session(name: str) -> str:
    """Return a name that users may give a session; UsageError where it is none."""
    if _SESSION.fullmatch(name) is None:
        raise UsageError(
            f"--session {name!r}: letters, digits, - and _, 8 to 60 of them",
            hint="--session run-7f3a91c2",
        )
    return name


def own_processes() -> _capture.TracedProcesses:
    """Return who is heard where no target is traced: this process, and what it starts."""
    # Here: what a program is given must not need the native module.
    from rlscope_trace import _capture

    processes = _capture.TracedProcesses()
    processes.add([os.getpid()])
    return processes


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


@dataclass(frozen=True, slots=True)
class Request:
    """What a program is to tell of."""

    session: str
    """Where its processes announce themselves: see new_session()."""
    auto: bool = True
    """Whether phases are looked for."""
    modules: str = ""
    """What else to listen to: see parse_modules(); or NVTX_OFF."""
    own_phases: str = ""
    """Rows of the user's for the table of phases: see phase_rows.read_rows()."""
    jax_profile: str = ""
    """When JAX profiles, and where to: see JaxProfile.variable()."""
    gpu: GpuSettings = field(default_factory=GpuSettings)


def inject(
    environment: Mapping[str, str],
    request: Request,
    *,
    program: Path | None,
    identity: Identity | None,
) -> Injection:
    """Return the environment with the shim in it; settings of the user's own are left alone.

    program: the file to run, if known. identity: the user it will run as, None: ours.
    """
    obstacle = _obstacle(program, identity)
    operations = _operations(environment, request, obstacle)
    gpu = _gpu(environment, request, obstacle)
    changed = dict(environment)
    if operations.measured or gpu.measured:
        changed |= {"RLSCOPE_SESSION": request.session, **request.gpu.environment()}
    if operations.measured:
        changed |= {_NVTX: str(LIBRARY), "RLSCOPE_NVTX": request.modules}
    if operations.measured and request.auto:
        changed["RLSCOPE_AUTO"] = "1"
        for name, value in (
            (_OWN_PHASES, request.own_phases), (_JAX_PROFILE, request.jax_profile)
        ):  # fmt: skip
            changed.pop(name, None)
            if value:
                changed[name] = value
        path = environment.get("PYTHONPATH")
        changed["PYTHONPATH"] = f"{PYTHON_FOLDER}{os.pathsep}{path}" if path else str(PYTHON_FOLDER)
    if gpu.measured:
        changed[_CUDA] = str(LIBRARY)
    return Injection(changed, operations, gpu)


def late_environment(session: str, modules: str, gpu: GpuSettings | None = None) -> dict[str, str]:
    """Return what a process gets into which the shim is loaded while it runs.

    gpu: how its GPU activity is recorded; None: it is not.
    """
    reported = {"RLSCOPE_SESSION": session, "RLSCOPE_NVTX": modules}
    if gpu is None:
        return {**reported, "RLSCOPE_CUPTI": "off"}
    # For a driver that is not initialised yet; where it is, the shim starts CUPTI by itself.
    return {**reported, **gpu.environment(), **({_CUDA: str(LIBRARY)} if gpu.cupti == "on" else {})}


def _obstacle(program: Path | None, identity: Identity | None) -> Fact | None:
    """Return why the program cannot be made to tell of anything, or None."""
    if not LIBRARY.exists():
        return Fact("shim_missing", LIBRARY.name)
    if identity is not None and not may_read(LIBRARY, identity.uid, identity.groups):
        return Fact("shim_unreadable", str(LIBRARY), count=identity.uid)
    if program is not None and is_static(program):
        return Fact("program_static", program.name)
    return None


def _operations(environment: Mapping[str, str], request: Request, obstacle: Fact | None) -> Verdict:
    if request.modules == NVTX_OFF:
        return Verdict(False, NOT_ASKED_FOR)
    other = _other_tool(environment, _NVTX)
    if obstacle is None and other is not None:
        obstacle = Fact("other_nvtx_tool", _NVTX, other)
    if obstacle is not None:
        return Verdict(False, obstacle)
    return Verdict(True, Fact("nvtx_and_phases" if request.auto else "nvtx_ranges"))


def _gpu(environment: Mapping[str, str], request: Request, obstacle: Fact | None) -> Verdict:
    other = _other_tool(environment, _CUDA)
    if obstacle is None and other is not None:
        obstacle = Fact("other_cuda_tool", _CUDA, other)
    refusal = request.gpu.refusal() or obstacle
    return Verdict(True, Fact("cupti")) if refusal is None else Verdict(False, refusal)


def _other_tool(environment: Mapping[str, str], variable: str) -> str | None:
    other = environment.get(variable)
    return other if other is not None and Path(other) != LIBRARY else None


def is_static(program: Path) -> bool:
    """Tell whether a file is an ELF program without a dynamic loader."""
    try:
        # What it names may be another file by now: a pipe is not waited for.
        descriptor = os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02" or len(head) < 64:
                return False
            offset = int.from_bytes(head[32:40], "little")
            size = int.from_bytes(head[54:56], "little")
            count = int.from_bytes(head[56:58], "little")
            if size * count > _MOST_SEGMENTS_BYTES:
                return False
            file.seek(offset)
            table = file.read(size * count)
    except (OSError, ValueError):
        return False
    kinds = [int.from_bytes(table[size * row : size * row + 4], "little") for row in range(count)]
    # PT_INTERP: what a program has that asks for the dynamic loader.
    return bool(kinds) and 3 not in kinds
