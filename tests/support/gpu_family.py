"""Records several programs that use the fake GPU at once, and reads what was told of each."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb

from conftest import WORKLOADS
from cuda_fakes import calls_program, environment
from recording import rlscope
from said import said

# CUPTI's kinds in the fake driver's account, and what the trace calls them.
KINDS = {"10": "kernel", "1": "memcpy", "22": "memcpy", "2": "memset", "51": "graph", "38": "sync"}


class Family:
    """The trace of a recording, and the truth of each program by its label."""

    def __init__(self, trace: Path, programs: dict[str, Any], words: str) -> None:
        self._trace = duckdb.connect(str(trace), read_only=True)
        self.programs = programs
        self.words = words

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of one query."""
        return self._trace.execute(sql, list(parameters)).fetchall()

    def reported(self, label: str) -> dict[str, Any]:
        """Return what a program said of itself; it got to its end and did what it was to do."""
        program = self.programs[label]
        assert program["told"] is not None, program
        reported: dict[str, Any] = program["told"]
        return reported

    def process(self, label: str) -> int:
        """Return the key of a program's process."""
        ((found,),) = self.query(
            "SELECT process_id FROM process WHERE pid = ?",
            self.programs[label]["pid"],
        )
        return int(found)

    def work(self, label: str) -> dict[str, tuple[int, int]]:
        """Return what a program's GPU did: kind -> how often, how long in ns."""
        rows = self.query(
            "SELECT kind, count(*), sum(end_ns - start_ns)::BIGINT FROM gpu_activity"
            " WHERE process_id = ? GROUP BY kind",
            self.process(label),
        )
        return {kind: (count, time_ns) for kind, count, time_ns in rows}

    def calls(self, label: str) -> Counter[str]:
        """Return how often a program called what."""
        rows = self.query(
            "SELECT name, count(*) FROM cuda_call WHERE process_id = ? GROUP BY name",
            self.process(label),
        )
        return Counter(dict(rows))

    def statuses(self, label: str) -> list[dict[str, Any]]:
        """Return what was told of a program's CUPTI, in order."""
        names = "state reason subject code api_version clock recorded refused"
        rows = self.query(
            f"SELECT {', '.join(names.split())} FROM gpu_status"
            " WHERE process_id = ? ORDER BY ts_ns",
            self.process(label),
        )
        return [dict(zip(names.split(), row, strict=True)) for row in rows]

    def coverage(self, label: str, kind: str) -> tuple[bool, str]:
        """Return whether a kind was measured of a program, and what there is to say of it."""
        process = self.process(label)
        where = f"kind = '{kind}' AND (process_id = {process} OR process_id IS NULL)"
        ((_, _, measured, reason), *_) = said(self.query, where)
        return bool(measured), str(reason)


def calls(
    *arguments: str, release: str | None = "13.0", prefix: tuple[str, ...] = (), **variables: str
) -> dict[str, Any]:
    """Return a program of a family: cuda_calls with the fakes of a release."""
    return {
        "command": [*prefix, str(calls_program()), *arguments],
        "environment": environment(release, **variables),
    }


def record(folder: Path, programs: dict[str, dict[str, Any]], *options: str) -> Family:
    """Record the programs side by side."""
    plan = folder / "programs.json"
    plan.write_text(json.dumps(programs))
    trace = folder / "trace.duckdb"
    done = rlscope(
        "-o", trace, "--no-auto", "--cuda-calls", "off", *options, "--", sys.executable,
        WORKLOADS / "cuda_family.py", plan,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    reported = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    return Family(trace, reported["programs"], done.stderr)


def truth(reported: dict[str, Any], *, whole_graphs: bool = True) -> dict[str, tuple[int, int]]:
    """Return what a program's GPU did, as Family.work tells it, by the driver's own account."""
    found: dict[str, tuple[int, int]] = {}
    for number, account in reported["truth"]["work"].items():
        if number not in KINDS or (number == "51" and not whole_graphs):
            continue
        hidden = (account["node_count"], account["node_ns"]) if whole_graphs else (0, 0)
        count, time_ns = found.get(KINDS[number], (0, 0))
        found[KINDS[number]] = (
            count + account["count"] - hidden[0],
            time_ns + account["ns"] - hidden[1],
        )
    return found
