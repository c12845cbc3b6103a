"""Whose the processes of Ray are: tables node and ray_process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_trace.texts import storable

if TYPE_CHECKING:
    import duckdb

    from rlscope_trace.ingest.store.ray_tasks import RayTasks
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

_KINDS = ("actor", "worker", "driver")
_MOST_ROWS = 100_000
_MOST_LETTERS = 200
_FACTS = ("job_id", "worker_id", "actor_id", "actor_class", "actor_name")


def of_other_jobs(reported: object) -> list[int]:
    """Return the pids of processes that belong to jobs that are not to be in the trace.

    reported: of the facts of a session. Where the job of a process is not known, it is kept.
    """
    found = reported if isinstance(reported, dict) else {}
    jobs, hidden, rows = (
        value if isinstance(value := found.get(name), list) else []
        for name in ("jobs", "hidden_jobs", "processes")
    )
    return [
        row["pid"]
        for row in rows[:_MOST_ROWS]
        if isinstance(row, dict)
        and type(row.get("pid")) is int
        and isinstance(job := row.get("job_id"), str)
        and (job in hidden or (jobs and job not in jobs))
    ]


@dataclass(slots=True)
class _Process:
    kind: str
    facts: dict[str, str | None]


class RayProcesses:
    """What a cluster said of the processes of a trace, joined with what they did."""

    def __init__(self, reported: object, con: duckdb.DuckDBPyConnection) -> None:
        """Take the facts of a session; what is not of their shape is left out."""
        self._reported: dict[str, Any] = reported if isinstance(reported, dict) else {}
        rows = self._reported.get("processes")
        by_pid = {
            row["pid"]: row
            for row in (rows[:_MOST_ROWS] if isinstance(rows, list) else ())
            if isinstance(row, dict) and type(row.get("pid")) is int and row.get("kind") in _KINDS
        }
        self._processes: dict[int, _Process] = {}
        raylet = self._reported.get("raylet_pid")
        lives = con.execute(
            "SELECT process_id, pid FROM process WHERE pid IS NOT NULL ORDER BY process_id"
        ).fetchall() if self._reported else []  # fmt: skip
        # Of several that had the pid the last one counts: the cluster tells of now.
        last = {pid: process_id for process_id, pid in lives}
        for process_id, pid in lives:
            if pid in by_pid and last[pid] == process_id:
                facts = {name: _text(by_pid[pid].get(name)) for name in _FACTS}
                self._processes[process_id] = _Process(by_pid[pid]["kind"], facts)
            elif pid == raylet and pid not in by_pid:
                self._processes[process_id] = _Process("raylet", {})

    def kinds(self) -> dict[int, str]:
        """Return what each process is, by process_id, as far as that is known."""
        return {process_id: process.kind for process_id, process in self._processes.items()}

    def write(self, trace: TraceWriter, tasks: RayTasks) -> None:
        """Fill both tables."""
        node = self._reported.get("node")
        if isinstance(node, dict) and _text(node.get("node_id")):
            is_head = node.get("is_head")
            row = (
                *(_text(node.get(name)) for name in ("node_id", "address", "host")),
                is_head if isinstance(is_head, bool) else None, _text(node.get("cluster")),
            )  # fmt: skip
            trace.insert_rows("node", [row])
        for process_id, name in tasks.worked.items():
            kind = "actor" if name else "worker"
            process = self._processes.setdefault(process_id, _Process(kind, {}))
            # The first title of an actor with a name has both.
            own, _, cls = name.rpartition(":")
            if cls and not process.facts.get("actor_class"):
                process.facts["actor_class"] = cls
            if own and not process.facts.get("actor_name"):
                process.facts["actor_name"] = own
        for process_id in tasks.idle:
            self._processes.setdefault(process_id, _Process("idle", {}))
        rows = [
            (process_id, process.kind, *(process.facts.get(name) for name in _FACTS))
            for process_id, process in sorted(self._processes.items())
        ]
        trace.insert_rows("ray_process", rows)
        self._name(trace.con, tasks)

    def _name(self, con: duckdb.DuckDBPyConnection, tasks: RayTasks) -> None:
        """Call processes that were idle when they were last looked at what they did before."""
        titles = {
            process_id: f"ray::{self._processes[process_id].facts.get('actor_class') or most}"
            for process_id, most in tasks.most_done().items()
        }
        con.execute(
            "UPDATE process SET title = n.title FROM (SELECT unnest(?::INTEGER[]) AS process_id,"
            " unnest(?::VARCHAR[]) AS title) AS n WHERE process.process_id = n.process_id"
            " AND coalesce(process.title, 'ray::IDLE') LIKE 'ray::IDLE%'",
            [list(titles), list(titles.values())],
        )


def _text(value: object) -> str | None:
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_LETTERS:
        return None
    return str(storable(value))
