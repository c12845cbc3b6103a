"""How fast the critical path of a trace is found, and in how much memory.

The measuring is done by a process of the Python that the recorder is installed for: this file, as
a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench_lib.figure import Figure
    from bench_lib.recorder import Bench

_STATES, _MANY_STATES = 628_000, 10_000_000
SECONDS_BUDGET, MANY_SECONDS_BUDGET = 1.0, 15.0
MEMORY_BUDGET_MB = 1000.0


def measure(bench: Bench) -> list[Figure]:
    """Return the CPU time for two traces, and the peak memory for the long one."""
    from bench_lib.figure import Figure

    found = []
    for name, states in (("path_short", _STATES), ("path_long", _MANY_STATES)):
        path = bench.trace(name)
        _child(bench, "write", str(path), str(states))
        found.append([json.loads(_child(bench, "time", str(path))) for _ in range(bench.runs)])
    short, long = ([run["cpu_s"] for run in runs] for runs in found)
    peaks = tuple(run["peak_mb"] for run in found[1])
    return [
        Figure("critical path, 628,000 states", "s", tuple(short), SECONDS_BUDGET),
        Figure("critical path, 10 M states", "s", tuple(long), MANY_SECONDS_BUDGET),
        Figure("peak memory, 10 M states", "MB", peaks, MEMORY_BUDGET_MB),
    ]


def _child(bench: Bench, *arguments: str) -> str:
    python = Path(bench.recorder).with_name("python")
    command = [str(python) if python.exists() else sys.executable, __file__, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def _write(path: Path, states: int) -> None:
    """Write a learner that asks four workers and goes on when the last of them has answered."""
    import duckdb

    from rlscope_analysis.derive import complete
    from rlscope_analysis.schema import create_tables
    from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION

    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS trace (STORAGE_VERSION 'v1.2.0')")
        connection.execute("USE trace")
        create_tables(connection)
        connection.execute(_ROUNDS, [states // 15])
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(SCHEMA_VERSION)])
        complete(connection)


# Of each round when it begins, when the learner has asked, how long each worker works and waits.
_ROUNDS = """
CREATE TEMP TABLE round AS
WITH work AS (
  SELECT
    i, 8000 + hash(i * 16) % 7000 AS asks,
    [5000 + hash(i * 16 + w) % 35000 FOR w IN [1, 2, 3, 4]] AS works,
    [500 + hash(i * 16 + 8 + w) % 2500 FOR w IN [1, 2, 3, 4, 5]] AS waits
  FROM range($1) AS r(i)
), answered AS (
  SELECT *, [works[w] + waits[w] FOR w IN [1, 2, 3, 4]] AS answers FROM work
), timed AS (
  SELECT *, list_max(answers) AS last, list_position(answers, list_max(answers)) AS slowest
  FROM answered
)
SELECT
  *, (sum(asks + last + waits[5]) OVER (ORDER BY i) - asks - last - waits[5])::BIGINT AS began
FROM timed
"""
_TABLES = (
    """
INSERT INTO thread_state_coded
  (thread_id, start_ns, end_ns, state, cpu, waker_kind, waker_thread_id)
SELECT thread_id, start_ns, end_ns, state, cpu,
  CASE WHEN waker IS NOT NULL THEN 'thread' END, waker FROM (
  SELECT 1 AS thread_id, began AS start_ns, began + asks AS end_ns, 'running' AS state,
    0 AS cpu, NULL::INTEGER AS waker
  FROM round
  UNION ALL
  SELECT 1, began + asks, began + asks + last, 'sleeping', -1, NULL FROM round
  UNION ALL
  SELECT
    1, began + asks + last, began + asks + last + waits[5], 'runnable', -1, slowest + 1
  FROM round
  UNION ALL
  SELECT w + 1, 0, (SELECT asks FROM round WHERE i = 0), 'sleeping', -1, NULL
  FROM range(1, 5) AS r(w)
  UNION ALL
  SELECT w + 1, began + asks, began + asks + waits[w], 'runnable', -1, 1
  FROM round, range(1, 5) AS r(w)
  UNION ALL
  SELECT w + 1, began + asks + waits[w], began + asks + answers[w], 'running', w, NULL
  FROM round, range(1, 5) AS r(w)
  UNION ALL
  SELECT
    w + 1, began + asks + answers[w],
    lead(began + asks, 1, began + asks + last + waits[5]) OVER (PARTITION BY w ORDER BY i),
    'sleeping', -1, NULL
  FROM round, range(1, 5) AS r(w)
) ORDER BY thread_id, start_ns
""",
    """
INSERT INTO process
  (process_id, host, pid, parent_process_id, start_ns, end_ns, name, command, exit_code, born_ns)
SELECT p, 'host', 100 + p, CASE WHEN p > 1 THEN 1 END, 0, end_ns, 'python', 'python', 0, 0
FROM range(1, 6) AS r(p), (SELECT max(began + asks + last + waits[5]) AS end_ns FROM round)
""",
    """
INSERT INTO thread (thread_id, process_id, tid, start_ns, end_ns, name, ended, lost_ns)
SELECT process_id, process_id, pid, 0, end_ns, name, TRUE, 0 FROM process ORDER BY 1
""",
    """
INSERT INTO operation_path (path_id, name, source, depth) VALUES (1, 'iteration', 'nvtx', 0)
""",
    """
INSERT INTO operation_coded (thread_id, start_ns, end_ns, path_id)
SELECT 1, min(began), max(began + asks + last + waits[5]), 1 FROM round GROUP BY i // 100 ORDER BY 2
""",
    """
INSERT INTO coverage (process_id, kind, measured)
VALUES (NULL, 'thread_state', TRUE), (NULL, 'operation', TRUE)
""",
)


def _time(path: str) -> dict[str, float]:
    """Return the CPU time for the path of a trace that is open, and what the process took."""
    import resource

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import rlscope_analysis

    with rlscope_analysis.open(path) as trace:
        before_s = time.process_time()
        trace.critical_path()
        cpu_s = time.process_time() - before_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"cpu_s": cpu_s, "peak_mb": peak_mb}


if __name__ == "__main__":
    if sys.argv[1] == "write":
        _write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.stdout.write(json.dumps(_time(sys.argv[2])))
