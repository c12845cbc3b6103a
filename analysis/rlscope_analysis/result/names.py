"""Values of cells and notes that name a process, a thread, or a part of a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process: its name and pid, as far as they are known."""

    name: str | None = None
    pid: int | None = None
    is_known: bool = True
    """False: of some threads it is not known to which process they belong."""
    threads: int | None = None
    """How many of its threads are reported, where that is said too."""


@dataclass(frozen=True, slots=True)
class ThreadName:
    """A thread: its name and tid, as far as they are known."""

    name: str | None
    tid: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """Whose part of a whole: a thread, or a code in the vocabulary of the schema."""

    whose: ThreadName | str
    count: int
    whole: int
