"""Takes the probes of calls away for a short while, and brings them back."""

from __future__ import annotations

import errno
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlscope_trace._capture import NativeProbes
    from rlscope_trace.record.instruments.log import ProbeLog

# How long the sites must have been the same before they are taken away for a while.
_SETTLED_NS = 2_000_000_000


class CallSwitch:
    """Whether the probes of calls are there; one thread may use it while another attaches."""

    def __init__(
        self, probes: NativeProbes, log: ProbeLog, give_up: Callable[[str, str], None]
    ) -> None:
        """give_up: called with a code and its detail when probes cannot be brought back."""
        self._probes = probes
        self._log = log
        self._give_up = give_up
        # A call of give_up comes back to ended().
        self._lock = threading.RLock()
        self._changed_ns: int | None = None
        self._suspended_ns: int | None = None
        self._is_ended = False

    @property
    def is_settled(self) -> bool:
        """Whether calls are probed, can be taken away, and have been the same for a while."""
        changed_ns = None if self._is_ended or self._probes.limit is not None else self._changed_ns
        return changed_ns is not None and time.monotonic_ns() - changed_ns > _SETTLED_NS

    @property
    def is_away(self) -> bool:
        """Whether no call is recorded now."""
        return self._suspended_ns is not None

    @property
    def is_ended(self) -> bool:
        """Whether all probes have been taken away for good."""
        return self._is_ended

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While sites are attached or dropped: all probes are there, and stay there.

        Raises OSError where they have been taken away for good: nobody would govern new ones.
        """
        with self._lock:
            self.resume()
            if self._is_ended:
                raise OSError(errno.ECANCELED, "the probes of calls were taken away")
            self._changed_ns = time.monotonic_ns()
            yield

    @contextmanager
    def ending(self) -> Iterator[None]:
        """While all probes are taken away for good."""
        with self._lock:
            self._note_end(time.monotonic_ns())
            self._is_ended = True
            yield

    def suspend(self) -> None:
        """Record no calls until resume(), or until something is to be attached."""
        with self._lock:
            if self._is_ended or self.is_away:
                return
            self._suspended_ns = time.monotonic_ns()
            # Told at once: if the recorder is killed, calls are missing from here to the end.
            self._log.append("window", probes="calls", start_ns=self._suspended_ns, end_ns=None)
            self._probes.suspend()

    def resume(self) -> None:
        """Record calls again."""
        with self._lock:
            if not self.is_away:
                return
            try:
                pause = self._probes.resume()
            except OSError as error:
                self._give_up("probes_gone", error.strerror or str(error))
                return
            if pause is None:
                self._note_end(time.monotonic_ns())
                return
            self._suspended_ns = None
            self._log.append(
                "window", probes="calls", start_ns=pause[0], away_ns=pause[1], back_ns=pause[2],
                end_ns=pause[3],
            )  # fmt: skip

    def _note_end(self, now_ns: int) -> None:
        if self._suspended_ns is not None:
            start_ns, self._suspended_ns = self._suspended_ns, None
            self._log.append("window", probes="calls", start_ns=start_ns, end_ns=now_ns)
