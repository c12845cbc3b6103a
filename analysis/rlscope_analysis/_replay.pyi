from typing import Any

import numpy.typing as npt

_Column = npt.NDArray[Any]

def replay(
    *,
    kind: _Column,
    length_ns: _Column,
    latency_ns: _Column,
    event: _Column,
    queue: _Column,
    first_item: _Column,
    cpus: _Column,
    events: int,
    lead: int,
    is_rendezvous: bool,
) -> float:
    """Return how long the thread `lead` takes for all of its items, in ns; below 0: for ever.

    One row an item, in the order of threads: kind (0 run, 1 fire an event, 2 wait for one, 3
    sleep), length_ns (of run and sleep), latency_ns (after wait and sleep), event, queue (of run).
    first_item: of each thread, and the end of the last. cpus: of each queue. Releases the GIL.
    Raises ValueError, with the name of a column, where it holds what is not allowed there.
    """
