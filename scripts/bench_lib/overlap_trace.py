"""A synthetic trace of reinforcement learning, dense and of any size, for the overlap engine.

Eight processes of four threads each: one that runs the RL loop, one that runs backward passes, two
that mostly sleep. Calls nest, two GPU streams per process overlap, threads sleep in every sync.
Of 10 M rows 4.9 M are calls, 2.9 M GPU activities, 1.4 M thread states and 0.8 M operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

_PROCESSES = 8
_ROWS_PER_STEP = 12.48
_STEP_NS = 48_000

# One step of one thread; a backward thread takes 2 steps where the loop takes 3. `chance(n, salt)`
# is a number below n that looks random and is the same in every run.
_STEPS = """
CREATE OR REPLACE TEMP MACRO chance(step, salt, n) AS (hash(step * 16 + salt) % n)::BIGINT;
CREATE OR REPLACE TEMP TABLE step AS
SELECT
  p + 1 AS process_id, (p * 4 + role + 1)::INTEGER AS thread_id, i AS number,
  p * 1000000007 + role * 500000003 + i AS seed,
  i * CASE role WHEN 0 THEN {step_ns} ELSE {step_ns} * 3 // 2 END AS began
FROM range({processes}) AS p(p), range(2) AS r(role), range({steps}) AS s(i)
WHERE role = 0 OR i < {steps} * 2 // 3
ORDER BY ALL
"""

# Of each table the columns that are set, and the rows.
_TABLES = {
    "process": """
(process_id, host, pid, parent_process_id, start_ns, end_ns, name,
  command, exit_code, born_ns)
SELECT p + 1, 'host', 1000 + p, NULL, 0, {end_ns}, 'python', 'python train.py', 0, 0
FROM range({processes}) AS p(p)""",
    "thread": """
(thread_id, process_id, tid, start_ns, end_ns, name, ended, lost_ns)
SELECT p * 4 + t + 1, p + 1, 1000 + p * 4 + t, 0, {end_ns}, 'python', true, 0
FROM range({processes}) AS p(p), range(4) AS t(t) ORDER BY ALL""",
    "coverage": """
(kind, measured)
SELECT kind, true FROM (VALUES ('thread_state'), ('operation'), ('native_call'),
  ('wait'), ('cuda_call'), ('gpu_activity')) AS k(kind)""",
    "operation_path": """
(path_id, parent_path_id, name, source, depth)
SELECT i, CASE WHEN i > 8 THEN (i - 9) // 8 + 1 END, 'operation ' || i, 'nvtx',
  CASE WHEN i > 8 THEN 1 ELSE 0 END FROM range(1, 73) AS r(i)""",
    # Every fourth step begins an iteration around four.
    "operation_coded": """
(thread_id, start_ns, end_ns, path_id)
SELECT thread_id, start_ns, end_ns, path_id FROM (
  SELECT thread_id, began AS start_ns, began + 3 * {step_ns} + 30000 AS end_ns,
    (number // 4 % 8 + 1)::INTEGER AS path_id, 0 AS depth FROM step WHERE number % 4 = 0
  UNION ALL
  SELECT thread_id, began + 400, began + 29000 + chance(seed, 1, 900),
    (9 + number // 4 % 8 * 8 + chance(seed, 2, 8))::INTEGER, 1 FROM step WHERE number % 4 <> 3
) ORDER BY thread_id, start_ns, depth""",
    # The last of three is a simulator every fourth step; else it is inside the second.
    "native_call_coded": """
(thread_id, start_ns, end_ns, layer, depth, site_id, outcome)
SELECT thread_id, start_ns, end_ns, layer, depth, 1, 'returned' FROM (
  SELECT thread_id, began + 1000 + chance(seed, 3, 400) AS start_ns,
    began + 9000 + chance(seed, 4, 3000) AS end_ns, 'backend' AS layer, 0::USMALLINT AS depth
  FROM step
  UNION ALL
  SELECT thread_id, began + 13000 + chance(seed, 5, 400), began + 27000 + chance(seed, 6, 900),
    'backend', 0
  FROM step
  UNION ALL
  SELECT thread_id,
    began + CASE number % 4 WHEN 1 THEN 30000 ELSE 14000 END + chance(seed, 7, 400),
    began + CASE number % 4 WHEN 1 THEN 36000 ELSE 26000 END + chance(seed, 8, 900),
    CASE number % 4 WHEN 1 THEN 'simulator' ELSE 'backend' END,
    CASE number % 4 WHEN 1 THEN 0 ELSE 1 END FROM step
) ORDER BY thread_id, start_ns, depth""",
    "cuda_call_coded": """
(thread_id, start_ns, end_ns, kind, name_id)
SELECT thread_id, start_ns, start_ns + length_ns, kind, 1 FROM (
  SELECT thread_id,
    began + 1800 + k * 3800 + k // 2 * 5700 + chance(seed + k, 9, 1000) AS start_ns,
    900 + chance(seed + k, 10, 1400) AS length_ns, 'launch' AS kind
  FROM step, range(3) AS r(k) WHERE k < 2 OR number % 2 = 0
  UNION ALL
  SELECT thread_id, began + 19500 + chance(seed, 11, 500), 5500, 'sync'
  FROM step WHERE number % 5 < 3
) ORDER BY thread_id, start_ns""",
    "gpu_activity_coded": """
(process_id, device_id, context_id, stream_id, start_ns, end_ns, kind,
  name_id)
SELECT process_id, 0, 1, stream, start_ns, start_ns + length_ns, kind, 1
FROM (
  SELECT process_id, thread_id % 2 AS stream,
    began + 5000 + k * 9000 + chance(seed + k, 12, 3000) AS start_ns,
    1500 + chance(seed + k, 13, 9000) AS length_ns, 'kernel' AS kind
  FROM step, range(4) AS r(k) WHERE k < 3 OR number % 2 = 0
) ORDER BY process_id, start_ns""",
    "wait_coded": """
(thread_id, start_ns, end_ns, kind)
SELECT thread_id, began + 20200, began + 24000, 'gil'
FROM step WHERE number % 40 = 1 ORDER BY ALL""",
    # Of each five steps three sleep in their sync: running, sleeping, runnable.
    "thread_state_coded": """
(thread_id, start_ns, end_ns, state, cpu)
SELECT thread_id, start_ns, lead(start_ns, 1, {end_ns}) OVER (PARTITION BY thread_id ORDER BY
  start_ns), state, CASE state WHEN 'running' THEN 0 ELSE -1 END FROM (
  SELECT thread_id, began + 20100 + k * 2000 + chance(seed, 14, 900) AS start_ns,
    CASE k WHEN 0 THEN 'sleeping' WHEN 1 THEN 'runnable' ELSE 'running' END AS state
  FROM step, range(3) AS r(k) WHERE number % 5 < 3
  UNION ALL
  SELECT (p * 4 + t + 1)::INTEGER, 0, CASE WHEN t < 2 THEN 'running' ELSE 'sleeping' END
  FROM range({processes}) AS p(p), range(4) AS t(t)
) ORDER BY thread_id, start_ns""",
}


def write_trace(path: Path, rows: int) -> int:
    """Write a trace with about so many rows in its tables of intervals; returns how many it has."""
    loop_steps = max(4, round(rows / _PROCESSES / _ROWS_PER_STEP / (5 / 3)))
    values = {
        "processes": _PROCESSES, "steps": loop_steps, "step_ns": _STEP_NS,
        "end_ns": (loop_steps + 1) * _STEP_NS,
    }  # fmt: skip
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS trace (STORAGE_VERSION 'v1.2.0')")
        connection.execute("USE trace")
        create_tables(connection)
        connection.execute(_STEPS.format(**values))
        for table, select in _TABLES.items():
            connection.execute(f"INSERT INTO {table} {select.format(**values)}")
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)])
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]  # noqa: S608
            for table in _TABLES
            if table.endswith("_coded") and table != "thread"
        ]
    return sum(counts)
