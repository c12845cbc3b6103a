"""Measurements of probed calls, and the records they left: a part of the cost lies inside these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Visit:
    """One measurement of probed calls, whose records are read at the end."""

    event: str
    mode: str
    site: int
    start_ns: int
    end_ns: int
    total_ns: float
    plain_ns: float
    """What the call takes when it is not probed."""

    def durations_ns(self, calls: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return how long its calls took; calls: all that were recorded, by Traced.calls()."""
        own = (
            (calls["site_id"] == self.site)
            & (calls["start_ns"] >= self.start_ns)
            & (calls["end_ns"] <= self.end_ns)
        )
        durations_ns: NDArray[np.int64] = (calls["end_ns"] - calls["start_ns"])[own]
        return durations_ns
