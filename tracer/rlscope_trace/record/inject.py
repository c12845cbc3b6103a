"""Late attach: NVTX ranges, and phases, of a process that was started without us.

Loads the shim into the process by ptrace (`_capture.inject`), where it looks for the objects that
carry NVTX and makes itself their tool. This runs code in the target, so it is only done when asked
for. Everything that forbids it is looked for before the target is touched.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace import _capture
from rlscope_trace.errors import TargetGoneError, TracerError
from rlscope_trace.phase_status import absence_fact
from rlscope_trace.privileges import ancestors, may_read
from rlscope_trace.record.bounded import Bounded, HeldUpError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROC = Path("/proc")
ENTRY = "rlscope_shim_inject"
STATUS = "rlscope_shim_inject_status"
INJECT_TIMEOUT_NS = 2_000_000_000
# How long the shim may look through the process; its Python half comes when the interpreter can.
SCAN_WAIT_S = 5.0
POLL_S = 0.01
LAUNCH_HINT = "start the program with it: rlscope-trace -- COMMAND"

# cupti/inject_request.h: struct rls_inject_request and struct rls_inject_status.
VERSION = 1
REQUEST = struct.Struct("<II2048s")
STATUS_FIELDS = struct.Struct("<8I2048s")
SCANNING, DONE, FAILED = 1, 2, 3
PYTHON_NONE, PYTHON_QUEUED, PYTHON_DONE = 0, 1, 2

# e_ident of a 64-bit little-endian ELF file, and e_machine of x86-64.
ELF_64 = b"\x7fELF\x02\x01"
X86_64 = 62


class InjectionError(TracerError):
    """The shim cannot be loaded into the process, which runs on unchanged."""

    def __init__(self, *facts: Fact, hint: str | None = None) -> None:
        """Take each reason why, as coverage has it."""
        super().__init__(*(fact.code for fact in facts), hint=hint)
        self.facts = facts


@dataclass(frozen=True, slots=True)
class LateResult:
    """What a late attach gives and what it cannot give."""

    captured: tuple[Fact, ...]
    missing: tuple[Fact, ...]
    # Time for which one thread of the target stood still, ns; None: it was not touched.
    stopped_ns: int | None


@dataclass(frozen=True, slots=True)
class _Status:
    """What the shim says of its look through the process."""

    state: int
    python: int
    filled: int
    ours: int
    foreign: int
    denied: int
    busy: int
    reported: dict[str, list[str]]

    @classmethod
    def parse(cls, data: bytes) -> _Status:
        fields = STATUS_FIELDS.unpack(data)
        version, state, python, filled, ours, foreign, denied, busy, message = fields
        if version != VERSION:
            raise InjectionError(Fact("late_other_version", str(VERSION), count=version))
        reported: dict[str, list[str]] = {}
        for line in message.split(b"\0", 1)[0].decode("utf-8", "replace").splitlines():
            key, _, value = line.partition("=")
            reported.setdefault(key, []).append(value)
        return cls(state, python, filled, ours, foreign, denied, busy, reported)


def shim_is_loaded(pid: int, *, name: str = "librlscope_shim.so", proc: Path = PROC) -> bool:
    """Return whether a process has the shim mapped, however it got there."""
    try:
        maps = (proc / str(pid) / "maps").read_bytes()
    except OSError:
        return False
    return any(line.endswith(b"/" + os.fsencode(name)) for line in maps.splitlines())


def inject_shim(
    pid: int, shim: Path, *, auto: bool, environment: Mapping[str, str] | None = None
) -> LateResult:
    """Load `shim` into a running process and make it the tool of the NVTX there.

    `auto`: also find phases of Python programs that nobody marked. `environment`: what a launched
    program would have been given; a Python process gets it for what it loads and executes from
    here on. Raises InjectionError where it cannot be done safely, TargetGoneError.
    """
    if shim_is_loaded(pid, name=shim.name):
        return LateResult((Fact("late_already"),), (), None)
    bounded = Bounded()
    try:
        obstacles = bounded.call(lambda: list(_obstacles(pid, shim)))
    except HeldUpError as error:
        raise InjectionError(Fact("late_held_up", detail=error.strerror, count=pid)) from error
    finally:
        bounded.close()
    if obstacles:
        hints = [hint for _, hint in obstacles if hint]
        raise InjectionError(
            *(fact for fact, _ in obstacles), hint=hints[0] if hints else LAUNCH_HINT
        )
    request = _request(auto, {"NVTX_INJECTION64_PATH": str(shim), **(environment or {})})
    try:
        injected = _capture.inject(pid, str(shim), ENTRY, request, timeout_ns=INJECT_TIMEOUT_NS)
        status = _wait(pid, shim)
    except _capture.InjectError as error:
        _read_status(pid)  # raises, if the end of the process is the reason
        raise InjectionError(
            Fact("late_not_loaded", detail=str(error), count=pid), hint=LAUNCH_HINT
        ) from None
    if status.state == FAILED:
        raise InjectionError(Fact("late_no_room", count=pid), hint=LAUNCH_HINT)
    return LateResult(tuple(_covered(status)), tuple(_missing(status)), injected.stopped_ns)


def _request(auto: bool, environment: Mapping[str, str]) -> bytes:
    block = b"".join(os.fsencode(f"{name}={text}") + b"\0" for name, text in environment.items())
    # Two zero bytes end the list.
    if len(block) > REQUEST.size - 8 - 2:
        raise InjectionError(Fact("late_long_paths"))
    return REQUEST.pack(VERSION, int(auto), block)


def _wait(pid: int, shim: Path) -> _Status:
    """Read the status until the shim has looked through the process, or time is up."""
    end = time.monotonic() + SCAN_WAIT_S
    while True:
        data = _capture.read_variable(pid, str(shim), STATUS, STATUS_FIELDS.size)
        status = _Status.parse(data)
        if status.state != SCANNING or time.monotonic() > end:
            return status
        time.sleep(POLL_S)


# --- what forbids it ---


def _obstacles(pid: int, shim: Path) -> Iterator[tuple[Fact, str | None]]:
    """Yield every reason against loading, with what mends it if anything does."""
    status = _read_status(pid)
    if status["State"][0] in "Tt":
        yield Fact("late_stopped", count=pid), f"kill -CONT {pid}"
    if (tracer := int(status["TracerPid"])) != 0:
        yield Fact("late_traced", str(tracer), count=pid), f"end pid {tracer} first"
    if pid == os.getpid() or any(pid == ancestor for ancestor, _ in ancestors()):
        yield Fact("late_ourselves", count=pid), None
    if _has_own_filter(status):
        yield Fact("late_seccomp", count=pid), None
    if "shstk" in status.get("x86_Thread_features", ""):
        yield Fact("late_shadow_stack", count=pid), None
    yield from _program_obstacles(pid)
    yield from _library_obstacles(pid, shim, status)


def _read_status(pid: int) -> dict[str, str]:
    try:
        text = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        raise TargetGoneError(f"there is no process with pid {pid}") from None
    pairs = (line.partition(":") for line in text.splitlines())
    status = {key: value.strip() for key, _, value in pairs}
    if status["State"][0] in "ZX":
        raise TargetGoneError(f"pid {pid} has ended")
    return status


def _has_own_filter(status: dict[str, str]) -> bool:
    """Return whether the process has more filters than its parent: those came from outside."""
    own = int(status.get("Seccomp_filters", "0"))
    if status.get("Seccomp", "0") == "1":
        return True
    try:
        inherited = int(_read_status(int(status["PPid"])).get("Seccomp_filters", "0"))
    except TargetGoneError:
        # Its parent is out of sight: the filter came with the container.
        inherited = own
    return own > inherited


def _program_obstacles(pid: int) -> Iterator[tuple[Fact, str | None]]:
    folder = PROC / str(pid)
    try:
        with (folder / "exe").open("rb") as file:
            header = file.read(20)
        maps = (folder / "maps").read_text(errors="replace")
    except PermissionError:
        yield Fact("late_memory_refused", count=pid), "run rlscope-trace as root"
        return
    except OSError:
        yield Fact("late_no_program", count=pid), None
        return
    if header[: len(ELF_64)] != ELF_64 or int.from_bytes(header[18:20], "little") != X86_64:
        yield Fact("late_other_machine", count=pid), None
    elif "/ld-musl-" in maps:
        yield Fact("late_musl", count=pid), None
    elif "/libc.so.6" not in maps:
        yield Fact("late_static", count=pid), None


def _library_obstacles(
    pid: int, shim: Path, status: dict[str, str]
) -> Iterator[tuple[Fact, str | None]]:
    seen = Path(f"{PROC}/{pid}/root{shim}")
    try:
        ours, theirs = shim.stat(), seen.stat()
        is_same = (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)
        is_noexec = bool(os.statvfs(seen).f_flag & os.ST_NOEXEC)
    except OSError:
        is_same, is_noexec = False, False
    if not is_same:
        yield (
            Fact("late_other_files", str(shim), count=pid),
            "make the file visible there under the same path, or start the program with "
            "rlscope-trace",
        )
    elif is_noexec:
        yield Fact("late_noexec", str(shim), count=pid), None
    elif not _may_read(seen, status):
        yield Fact("late_unreadable", str(shim), count=pid), f"chmod -R a+rX {shim.parent}"


def _may_read(path: Path, status: dict[str, str]) -> bool:
    """Return whether the user of the process may read a file and pass the folders above it."""
    groups = {int(status["Gid"].split()[3]), *map(int, status["Groups"].split())}
    # /proc/PID/root itself is the recorder's business.
    below = len(("/", "proc", "pid", "root"))
    return may_read(path, int(status["Uid"].split()[3]), groups, below=below)


# --- what came of it ---


def _covered(status: _Status) -> Iterator[Fact]:
    objects = status.filled + status.ours
    if objects:
        yield Fact("late_ranges", count=objects)
    if "environment" in status.reported:
        yield Fact("late_later_ranges")
    if "repaired" in status.reported.get("nvtx", []):
        yield Fact("late_package_ranges")
    if "installed" in status.reported.get("auto", []):
        yield Fact("late_phases")


def _missing(status: _Status) -> Iterator[Fact]:
    yield Fact("late_open_ranges")
    if status.state != DONE:
        yield Fact("late_still_looking")
    lost = status.reported.get("lost", [])
    if "decorated" in lost:
        yield Fact("late_decorated")
    if "domains" in lost:
        yield Fact("late_domains")
    if "disabled" in status.reported.get("nvtx", []):
        yield Fact("late_nvtx_disabled")
    if status.foreign:
        yield Fact("late_foreign_objects", count=status.foreign)
    if status.busy:
        yield Fact("late_busy_objects", count=status.busy)
    if status.python == PYTHON_NONE:
        yield Fact("late_no_python")
    elif status.python == PYTHON_QUEUED:
        yield Fact("late_python_busy")
    elif status.python != PYTHON_DONE:
        yield Fact("late_python_failed")
    yield from _missing_phases(status.reported)
    for problem in status.reported.get("error", []):
        yield Fact("late_python_error", detail=problem)


def _missing_phases(reported: Mapping[str, Sequence[str]]) -> Iterator[Fact]:
    for why in reported.get("auto", []):
        if why != "installed":
            yield absence_fact(why)
    for failure in reported.get("failed", []):
        _, _, said = failure.partition("\t")
        adapter, _, why = said.partition("\t")
        yield Fact("late_phases_incomplete", adapter, ": ".join(filter(None, why.split("\t"))))
