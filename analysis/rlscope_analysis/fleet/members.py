"""Which traces belong to a fleet: files, folders of them, or what a manifest lists."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_analysis.errors import TraceError
from rlscope_analysis.fleet.clock import NodeClock, clock_of
from rlscope_analysis.foreign_file import read_json
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MANIFEST = "manifest.json"
FORMAT, VERSION = "rlscope-fleet", 1
PARTIAL_SUFFIX = ".partial.parquet"
"""Of the answer about a trace. Here, as keepers need it, too, and must not load DuckDB."""
MOST_MEMBERS = 10_000
_TRACES = ".duckdb"
# A spool that is being written, and what is unfinished.
_UNFINISHED = (".spool", ".partial")
_LONGEST_NAME = 80
# So many last parts of a path name a trace; beyond, the whole of it does.
_MOST_PARTS = 8
_HINT = "rlscope-trace fleet summarize TRACE..., or a folder of traces"


@dataclass(slots=True)
class Members:
    """Traces by the names of the members, and their clocks where a manifest has them."""

    traces: dict[str, Path] = field(default_factory=dict)
    clocks: dict[str, NodeClock] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    """Of traces that lie on other machines: which partial is theirs."""
    unread: dict[str, str] = field(default_factory=dict)
    """Folders in which traces may lie that nobody saw, and why."""


def find_members(given: Sequence[Path]) -> Members:
    """Return what the paths name. Raises TraceError where there is nothing, or no such manifest."""
    members = Members()
    loose: list[Path] = []
    for path in given:
        is_folder = os.path.isdir(path)  # noqa: PTH112 - any name is one
        manifest = path / MANIFEST if is_folder else path
        if manifest.suffix == ".json" and (manifest != path / MANIFEST or manifest.exists()):
            _read_manifest(manifest, members)
        elif is_folder:
            found = sorted(_below(path, members.unread))
            if not found:
                unread = members.unread.get(str(path))
                why = f"holds no *{_TRACES}" if unread is None else f"cannot be read: {unread}"
                raise TraceError(f"{path} {why}", hint=_HINT)
            loose += found
        else:
            loose.append(path)
    for name, path in _named(loose):
        _add(members, name, path)
    if not members.traces:
        raise TraceError("no trace is named", hint=_HINT)
    return members


def _below(folder: Path, unread: dict[str, str]) -> Iterator[Path]:
    """Yield traces in a folder and those inside it; links to folders are not followed."""
    # Not os.walk(): before Python 3.12 it recurses, and it passes over what it cannot read.
    waiting = [folder]
    while waiting:
        looked_at = waiting.pop()
        try:
            with os.scandir(looked_at) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        if entry.name.endswith(_TRACES):
                            yield Path(entry.path)
                    elif not entry.name.endswith(_UNFINISHED):
                        waiting.append(Path(entry.path))
        except OSError as error:
            unread[str(looked_at)] = error.strerror or str(error)


def _named(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Name traces by as many last parts of their paths as tell them apart."""
    unique = list(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))  # noqa: PTH100 - links stay
    given = {Path(os.path.abspath(path)): path for path in reversed(paths)}  # noqa: PTH100
    names = {path: path.name.removesuffix(_TRACES) for path in unique}
    depth = 1
    while twice := {name for name, count in Counter(names.values()).items() if count > 1}:
        depth += 1
        for path in unique:
            if names[path] in twice:
                names[path] = "/".join(path.parts[-depth:]).removesuffix(_TRACES)
        if depth > min(_MOST_PARTS, max(len(path.parts) for path in unique)):
            # a.duckdb beside a, too: the whole names tell them apart.
            names |= {path: str(path) for path in unique if names[path] in twice}
            break
    for path in unique:
        yield names[path], given[path]


def _add(members: Members, name: str, path: Path) -> None:
    # What a shell passes on may be any bytes.
    name = name.encode("utf-8", "backslashreplace").decode()
    if name in members.traces:
        raise TraceError(f"two members are called {printable(name)}", hint="name each once")
    members.traces[name] = path


def _read_manifest(path: Path, members: Members) -> None:
    try:
        found = read_json(path)
        if found["format"] != FORMAT or found["version"] != VERSION:
            raise ValueError(f"no manifest of version {VERSION}")
        if len(found["members"]) + len(found.get("lost", ())) > MOST_MEMBERS:
            raise ValueError(f"more than {MOST_MEMBERS:,} members")
        listed: set[Path] = set()
        for entry in found["members"]:
            name, trace, clock = _entry(entry, path.parent)
            if trace in listed:
                raise ValueError(f"two members have the trace {trace.name!r}")
            listed.add(trace)
            _add(members, name, trace)
            mark = entry.get("partial_mark")
            if isinstance(mark, str) and not trace.exists():
                members.marks[name] = mark
            if clock is not None:
                members.clocks[name] = clock
        for entry in found.get("lost", ()):
            # Its recorder saved by itself, after the manifest had been written.
            name, trace, _ = _entry({**entry, "trace": f"{entry['node']}{_TRACES}"}, path.parent)
            if trace.exists():
                _add(members, name, trace)
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__}: {printable(str(error))[:200]}"
        raise TraceError(
            f"{path} is not the manifest of a fleet ({what})", hint="docs/fleet.md shows one"
        ) from error


def _entry(entry: dict[str, Any], folder: Path) -> tuple[str, Path, NodeClock | None]:
    name, trace = entry["node"], entry["trace"]
    if (
        not isinstance(name, str)
        or not isinstance(trace, str)
        or not 0 < len(name) <= _LONGEST_NAME
    ):
        raise ValueError("node and trace are words")
    inside = Path(trace)
    if inside.is_absolute() or ".." in inside.parts or "\0" in trace or not inside.name:
        raise ValueError(f"trace {trace!r} does not lie beside it")
    clock = entry.get("clock")
    return name, folder / inside, None if clock is None else clock_of(clock)
