"""What Python calls processes and threads: marks in the domain of the phases hold it.

The target reports each name by a mark: cupti/python/rlscope_phases/names.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from rlscope_trace.ingest.store.processes import Life
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

# As in names.py: what such a mark begins with.
_PROCESS, _THREAD = "process name", "thread name"
# Of all processes, and of all threads: the program can report names without end.
MAX_NAMES = 1 << 17
# Between who starts a process and that process: a fork server at most. The program may have a chain
# of many, and report names without end.
_MAX_GENERATIONS = 8

# pid of the process that reported it, when, the id that has the name, the name.
_Reported = tuple[int, int, int, str]


class PythonNames:
    """The names of one recording."""

    def __init__(self) -> None:
        self._processes: list[_Reported] = []
        self._threads: list[_Reported] = []
        self.left_out = 0
        """Names beyond the first MAX_NAMES."""

    def add(self, pid: int, ts_ns: int, text: str) -> None:
        """Take the text of a mark in the domain of the phases."""
        prefix, *fields = text.split("\t")
        reported = {_PROCESS: self._processes, _THREAD: self._threads}.get(prefix)
        if reported is None or len(fields) != 2:
            return
        number, name = fields
        if not number.isdecimal() or len(number) > 10:
            return
        if len(reported) < MAX_NAMES:
            reported.append((pid, ts_ns, int(number), name))
        else:
            self.left_out += 1

    def write(self, trace: TraceWriter, lives: Sequence[Life]) -> None:
        """Put the names into the tables process and thread, whose rows are written."""
        _update(trace.con, "process", "process_id", self._by_process(lives))
        threads = self._by_thread(trace.con, lives)
        _update(trace.con, "thread", "thread_id", threads)

    def _by_process(self, lives: Sequence[Life]) -> dict[int, str]:
        """Return names by process_id.

        A number that a process in a pid namespace tells is another one here: it may be that of some
        process, but hardly of one below it.
        """
        parents = {life.process_id: life.parent_process_id for life in lives}
        begun = _Begun((life.pid, life.first_ns, life.process_id) for life in lives)
        names = {}
        for pid, ts_ns, number, name in sorted(self._processes, key=_time):
            teller, named = begun.at(pid, ts_ns), begun.at(number, ts_ns)
            if teller and teller in _ancestors(named, parents):
                names[named] = name
        return names

    def _by_thread(self, con: duckdb.DuckDBPyConnection, lives: Sequence[Life]) -> dict[int, str]:
        processes = _Begun((life.pid, life.first_ns, life.process_id) for life in lives)
        reported = [
            ((processes.at(pid, ts_ns), number), ts_ns, name)
            for pid, ts_ns, number, name in sorted(self._threads, key=_time)
        ]
        rows = con.execute(
            "SELECT process_id, tid, start_ns, thread_id FROM thread"
            " WHERE process_id IN (SELECT unnest(?)) ORDER BY start_ns",
            [sorted({process_id for (process_id, _), _, _ in reported})],
        ).fetchall()
        threads = _Begun(
            ((process_id, tid), start_ns, key) for process_id, tid, start_ns, key in rows
        )
        found = [(threads.at(ids, ts_ns), name) for ids, ts_ns, name in reported]
        return {thread_id: name for thread_id, name in found if thread_id}


def _ancestors(process_id: int, parents: dict[int, int]) -> list[int]:
    """Return the nearest ancestors, parents first."""
    found = [process_id]
    for _ in range(_MAX_GENERATIONS):
        found.append(parents.get(found[-1], 0))
    return found[1:]


class _Begun:
    """Lives by an id that is used again: which one there was at an instant."""

    def __init__(self, lives: Iterable[tuple[object, int, int]]) -> None:
        self._lives: dict[object, list[tuple[int, int]]] = {}
        for number, first_ns, key in lives:
            self._lives.setdefault(number, []).append((first_ns, key))

    def at(self, number: object, ts_ns: int) -> int:
        """Return the key of the last one that had begun; 0: none had."""
        return max((one for one in self._lives.get(number, ()) if one[0] <= ts_ns), default=(0, 0))[
            1
        ]


def _time(reported: _Reported) -> int:
    return reported[1]


def _update(con: duckdb.DuckDBPyConnection, table: str, key: str, names: dict[int, str]) -> None:
    """Name the rows of some ids."""
    if names:
        con.execute(
            f"UPDATE {table} SET python_name = reported.name"  # noqa: S608
            " FROM (SELECT unnest(?) AS id, unnest(?) AS name) AS reported"
            f" WHERE {table}.{key} = reported.id",
            [list(names), list(names.values())],
        )
