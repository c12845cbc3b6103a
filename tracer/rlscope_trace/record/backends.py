"""What to attach: the backends, in fallback order, and the choice by trying."""

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
Backend = Literal["btf", "tracefs"]

_LIBBPF_BACKENDS: dict[Backend, Callable[..., Capture]] = {
    "btf": BtfLoader,
    "tracefs": TracepointLoader,
}
_PROBE_RING_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """One backend that was tried: `reason` is empty where it worked."""

    backend: Backend
    reason: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The loaded capture, and what was tried on the way to it."""

    capture: Capture
    loader: Loader
    backend: Backend
    attempts: tuple[Attempt, ...]

    def tried(self) -> list[dict[str, str]]:
        """Return the attempts as the trace keeps them."""
        return [{"backend": a.backend, "result": a.reason or "taken"} for a in self.attempts]


class NothingWorksError(TracerError):
    """No backend can be loaded on this machine."""


def open_capture(*, loader: Loader, backend: Backend | None, ring_bytes: int) -> Opened:
    """Load the best capture this kernel takes, or the one that was asked for."""
    if loader == "bcc":
        # Here, because bcc is Debian's and may be absent.
        from rlscope_trace.record.loaders.bcc import BccLoader

        if backend == "btf":
            raise TracerError("bcc has no BTF backend", hint="leave out --capture btf")
        return Opened(BccLoader(ring_bytes=ring_bytes), "bcc", "tracefs", (Attempt("tracefs", ""),))
    attempts: list[Attempt] = []
    for name, load in _LIBBPF_BACKENDS.items():
        if backend not in (None, name):
            continue
        try:
            capture = load(ring_bytes=ring_bytes)
        except (OSError, TracerError) as error:
            attempts.append(Attempt(name, _reason(error)))
            continue
        attempts.append(Attempt(name, ""))
        return Opened(capture, "libbpf", name, tuple(attempts))
    raise NothingWorksError("; ".join(f"{a.backend}: {a.reason}" for a in attempts))


def best_backend() -> Backend:
    """Return the backend that a recording takes here; NothingWorksError: there is none."""
    return open_capture(loader="libbpf", backend=None, ring_bytes=_PROBE_RING_BYTES).backend


def probe_backends() -> list[tuple[str, bool, str]]:
    """Load and attach every backend in turn: its name, whether it works, and if not why."""
    reasons = {name: _try(load) for name, load in _LIBBPF_BACKENDS.items()}
    return [(name, not reason, reason) for name, reason in reasons.items()]


def _try(load: Callable[..., Capture]) -> str:
    """Return why a backend does not work; nothing if it does."""
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
