"""Records programs of which it is known what holds an iteration up, and asks for their path."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import rlscope_analysis
from conftest import WORKLOADS
from recording import rlscope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Recorded:
    """The path of a program, and what the program says of itself."""

    def __init__(
        self, folder: Path, program: str, rounds: int, *, before: Sequence[str] = (),
        workload: str = "known_path",
    ) -> None:  # fmt: skip
        """before: a command that runs it."""
        trace = folder / "trace.duckdb"
        done = rlscope(
            "-o", trace, "--", *before, sys.executable, WORKLOADS / f"{workload}.py", program,
            str(rounds),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.truth: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        self._trace = rlscope_analysis.open(trace)
        self._trace.critical_path(per="iteration")
        counted = "SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM iteration"
        ((self.iterations, self.time_ns),) = self._trace.sql(counted).fetchall()
        reported = "SELECT sum(duration_ns)::BIGINT FROM critical_path"
        assert self._trace.sql(reported).fetchall() == [(self.time_ns,)]

    def part_ns(self, where: str) -> int:
        """Return how much of the path is so."""
        ((time_ns,),) = self._trace.sql(
            "SELECT coalesce(sum(c.duration_ns), 0)::BIGINT FROM critical_path AS c"
            " LEFT JOIN thread AS t ON t.thread_id = c.thread_id"
            f" LEFT JOIN process AS p ON p.process_id = t.process_id WHERE {where}"
        ).fetchall()
        return int(time_ns)

    def share(self, where: str) -> float:
        return self.part_ns(where) / self.time_ns
