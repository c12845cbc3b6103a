"""What to attach: the ladder of captures, best first, and the choice by trying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlscope_trace.errors import TracerError
from rlscope_trace.record.loaders.btf import BtfLoader
from rlscope_trace.record.loaders.tracepoints import TracepointLoader

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_trace.record.loaders.capture import Capture

Loader = Literal["libbpf", "bcc"]
Rung = Literal["btf", "tracefs"]

_LIBBPF_LADDER: dict[Rung, Callable[..., Capture]] = {
    "btf": BtfLoader,
    "tracefs": TracepointLoader,
}
_PROBE_RING_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rung that was tried: `reason` is empty where it worked."""

    rung: Rung
    reason: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The loaded capture, and what was tried on the way to it."""

    capture: Capture
    loader: Loader
    rung: Rung
    attempts: tuple[Attempt, ...]

    def ladder(self) -> list[dict[str, str]]:
        """Return the attempts as the trace keeps them."""
        return [{"rung": a.rung, "result": a.reason or "taken"} for a in self.attempts]


class NothingWorksError(TracerError):
    """No rung of the ladder can be loaded on this machine."""


def open_capture(*, loader: Loader, rung: Rung | None, ring_bytes: int) -> Opened:
    """Load the best capture this kernel takes, or the one that was asked for."""
    if loader == "bcc":
        # Here, because bcc is Debian's and may be absent.
        from rlscope_trace.record.loaders.bcc import BccLoader

        if rung == "btf":
            raise TracerError("bcc has no BTF rung", hint="leave out --capture btf")
        return Opened(BccLoader(ring_bytes=ring_bytes), "bcc", "tracefs", (Attempt("tracefs", ""),))
    attempts: list[Attempt] = []
    for name, load in _LIBBPF_LADDER.items():
        if rung not in (None, name):
            continue
        try:
            capture = load(ring_bytes=ring_bytes)
        except (OSError, TracerError) as error:
            attempts.append(Attempt(name, _reason(error)))
            continue
        attempts.append(Attempt(name, ""))
        return Opened(capture, "libbpf", name, tuple(attempts))
    raise NothingWorksError("; ".join(f"{a.rung}: {a.reason}" for a in attempts))


def best_rung() -> Rung:
    """Return the rung that a recording takes here; NothingWorksError: there is none."""
    return open_capture(loader="libbpf", rung=None, ring_bytes=_PROBE_RING_BYTES).rung


def probe_ladder() -> list[tuple[str, bool, str]]:
    """Load and attach every rung in turn: its name, whether it works, and if not why."""
    reasons = {name: _try(load) for name, load in _LIBBPF_LADDER.items()}
    return [(name, not reason, reason) for name, reason in reasons.items()]


def _try(load: Callable[..., Capture]) -> str:
    """Return why a rung does not work; nothing if it does."""
    try:
        capture = load(ring_bytes=_PROBE_RING_BYTES)
        capture.attach()
        capture.detach()
    except (OSError, TracerError) as error:
        return _reason(error)
    return ""


def _reason(error: OSError | TracerError) -> str:
    # The words of an OSError are its second argument; str() would repeat the number.
    words = error.args[1] if isinstance(error, OSError) and len(error.args) > 1 else str(error)
    return " ".join(str(words).split())
