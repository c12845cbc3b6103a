"""What is promised of the edges of any trace, and what else counts the same, as plain SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_BROKEN = {
    "an edge points back in time": "SELECT count(*) FROM flow WHERE from_ns > to_ns",
    "an edge is listed twice": """
        SELECT (SELECT count(*) FROM flow) - (SELECT count(*) FROM (FROM flow UNION FROM flow))""",
    "a thread did not live at the end of an edge": """
        WITH edge_end(thread_id, process_id, ts_ns) AS (
          SELECT from_thread_id, from_process_id, from_ns FROM flow
          UNION ALL SELECT to_thread_id, to_process_id, to_ns FROM flow
        )
        SELECT count(*) FROM edge_end AS e
        WHERE thread_id IS NOT NULL AND NOT EXISTS (
          FROM thread AS t
          WHERE t.thread_id = e.thread_id AND t.process_id IS NOT DISTINCT FROM e.process_id
            AND e.ts_ns BETWEEN t.start_ns AND t.end_ns
        )""",
    "an edge from the GPU begins where no activity ends": """
        SELECT count(*) FROM flow AS f
        WHERE f.from_kind = 'gpu' AND f.kind <> 'collective' AND NOT EXISTS (
          FROM gpu_activity AS a
          WHERE a.process_id = f.from_process_id AND a.end_ns = f.from_ns AND a.kind <> 'sync'
            AND a.device_id = f.from_device_id AND a.stream_id IS NOT DISTINCT FROM f.from_stream_id
        )""",
    "an edge to the GPU ends where no activity begins": """
        SELECT count(*) FROM flow AS f
        WHERE f.to_thread_id IS NULL AND f.kind <> 'collective' AND NOT EXISTS (
          FROM gpu_activity AS a
          WHERE a.process_id = f.to_process_id AND a.start_ns = f.to_ns AND a.kind <> 'sync'
            AND a.device_id IS NOT DISTINCT FROM f.to_device_id
            AND a.stream_id IS NOT DISTINCT FROM f.to_stream_id
        )""",
    "an edge of a collective begins where no activity begins": """
        SELECT count(*) FROM flow AS f
        WHERE f.kind = 'collective' AND NOT EXISTS (
          FROM gpu_activity AS a
          WHERE a.process_id = f.from_process_id AND a.start_ns = f.from_ns AND a.kind = 'kernel'
            AND a.device_id = f.from_device_id AND a.stream_id IS NOT DISTINCT FROM f.from_stream_id
        )""",
    "an edge of a collective ends where no activity of another process ends": """
        SELECT count(*) FROM flow AS f
        WHERE f.kind = 'collective' AND NOT EXISTS (
          FROM gpu_activity AS a
          WHERE a.process_id = f.to_process_id AND a.end_ns = f.to_ns AND a.kind = 'kernel'
            AND a.device_id = f.to_device_id AND a.stream_id IS NOT DISTINCT FROM f.to_stream_id
            AND f.to_process_id <> f.from_process_id
        )""",
    "a wakeup has no edge, or more than one": """
        SELECT abs(
          (SELECT count(*) FROM flow
            WHERE kind IN ('wakeup', 'fork', 'exit', 'gil')
              OR kind = 'message' AND wait IS NOT NULL)
          - (SELECT count(*) FROM thread_state WHERE waker_kind IS NOT NULL)
        )""",
    "an activity whose call is known has no edge, or more than one": """
        SELECT abs(
          (SELECT count(*) FROM flow WHERE kind = 'launch')
          - (SELECT count(*) FROM launch WHERE thread_id IS NOT NULL AND kind <> 'sync')
        )""",
    "a wait for the GIL whose end is known has no edge": """
        SELECT abs(
          (SELECT count(*) FROM flow WHERE kind = 'gil')
          - (SELECT count(*) FROM gil_wait WHERE holder_thread_id IS NOT NULL)
        )""",
    "waits_on_peer counts other waits": """
        SELECT abs(
          (SELECT count(*) FROM flow
            WHERE wait IN ('pipe', 'socket', 'poll', 'process') AND from_kind = 'thread')
          - (SELECT coalesce(sum(count), 0) FROM waits_on_peer WHERE peer_kind = 'process')
        )""",
}


def check_edges(connection: duckdb.DuckDBPyConnection) -> None:
    """Hold the edges of a trace of any size to what is promised of each, and to other counts."""
    for fault, query in _BROKEN.items():
        ((count,),) = connection.execute(query).fetchall()
        assert count == 0, f"{fault}: {count}"
