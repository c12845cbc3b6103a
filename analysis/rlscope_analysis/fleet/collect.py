"""Reads the partials of many traces, and works out those that are missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlscope_analysis.cpu_list import own_cpu_count
from rlscope_analysis.damage import damage_reported
from rlscope_analysis.errors import TraceError, UnknownRangeError
from rlscope_analysis.fleet.partial import Partial, partial_of
from rlscope_analysis.fleet.partial_file import PartialReader, fingerprint
from rlscope_analysis.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

# Each holds the records of a trace in memory while it is at work.
_MOST_AT_ONCE = 4
# Same recording, whatever its file is called.
_IDENTITY = ("boot_id", "recorder_starttime", "recorder_pid", "start_ns", "end_ns")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A trace that is not in the sums, and why."""

    member: str
    path: str
    why: str


@dataclass(slots=True)
class Collected:
    """Partials by member, and what is not among them."""

    partials: dict[str, Partial] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    reused: int = 0
    """How many lay beside their traces."""


def collect(  # noqa: PLR0913 - what one call of the command says
    traces: Mapping[str, Path],
    *,
    reader: str,
    per: str | None = None,
    marks: Mapping[str, str] | None = None,
    keep: Callable[[Path, Partial, str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Collected:
    """Return the partials of traces, by the names of the members.

    reader: the version of who asks. marks: of traces that lie elsewhere, which partial is theirs:
    it was worked out there. keep(trace, partial, mark) stores one that was worked out here.
    progress(done, total) is called after each. A trace that cannot be read is left out and named;
    so is one that is the same recording as another. Raises UnknownRangeError where none of them has
    a range that is called `per`.
    """
    collected = Collected()
    found: dict[str, Partial | TraceError] = {}
    missing: dict[str, tuple[Path, str]] = {}
    with PartialReader(list(traces.values())) as partials:
        for name, path in traces.items():
            try:
                mark = fingerprint(path, reader=reader, per=per)
            except (OSError, ValueError):
                mark = (marks or {}).get(name, "") if per is None else ""
            kept = partials.read(path, mark) if mark else None
            if kept is None:
                missing[name] = (path, mark)
            else:
                found[name] = kept
                collected.reused += 1
    for name, partial in _worked_out(missing, per, len(found), progress):
        found[name] = partial
        path, mark = missing[name]
        if keep is not None and mark and isinstance(partial, Partial):
            keep(path, partial, mark)
    _sort_out(collected, traces, found)
    ranges = {one.facts.per for one in collected.partials.values()}
    if per is not None and ranges == {None}:
        raise UnknownRangeError(per)
    return collected


def _worked_out(
    missing: Mapping[str, tuple[Path, str]],
    per: str | None,
    done: int,
    progress: Callable[[int, int], None] | None,
) -> Iterator[tuple[str, Partial | TraceError]]:
    workers = min(_MOST_AT_ONCE, own_cpu_count())
    total = done + len(missing)
    with ThreadPoolExecutor(max_workers=workers) as executor:
        running: dict[Future[Partial | TraceError], str] = {
            executor.submit(_one, path, per): name for name, (path, _) in missing.items()
        }
        try:
            for done_now, future in enumerate(as_completed(running), done + 1):
                if progress is not None:
                    progress(done_now, total)
                # Popped, so that its answer is not kept twice.
                yield running.pop(future), future.result()
        finally:
            # After a Ctrl-C only those that have begun are waited for.
            executor.shutdown(wait=False, cancel_futures=True)


def _one(path: Path, per: str | None) -> Partial | TraceError:
    try:
        with damage_reported(path), open_trace(path) as trace:
            return partial_of(trace, per=per)
    except TraceError as error:
        return error
    except OSError as error:
        return TraceError(f"cannot read {path}: {error.strerror}")


def _sort_out(
    collected: Collected, traces: Mapping[str, Path], found: Mapping[str, Partial | TraceError]
) -> None:
    """Put each where it belongs, in the order that the traces were given in."""
    seen: dict[tuple[object, ...], str] = {}
    for name, path in traces.items():
        one = found[name]
        if isinstance(one, TraceError):
            collected.left_out.append(LeftOut(name, str(path), str(one)))
            continue
        identity = tuple(getattr(one.facts, fact) for fact in _IDENTITY)
        if None not in identity and identity in seen:
            why = f"it is the same recording as {seen[identity]}"
            collected.left_out.append(LeftOut(name, str(path), why))
            continue
        seen[identity] = name
        collected.partials[name] = one
