"""The whole stack: PPO on the GPU under the recorder, and what a user then asks of the trace."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from gpu_check_lib.context import last_object
from gpu_check_lib.product import rlscope, start_recording

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_check_lib.context import Context

_SECONDS = 15
_VIEW_LIMIT_S = 30.0
# cupti_api and cupti_activity.
_CUPTI_EVENTS = 2
_VIEWS = (
    "operation", "gpu", "utilization", "kernel", "launch", "latency", "attribution", "gpu-idle",
    "transitions", "corrected",
)  # fmt: skip
_KERNELS = "SELECT count(*) AS kernels FROM gpu_activity WHERE kind = 'kernel'"
_MEASURED = "SELECT count(*) AS processes FROM coverage WHERE kind = 'gpu_activity' AND measured"
_EARLY = (
    "SELECT count(*) AS early FROM gpu_activity AS a"
    " JOIN process AS p USING (process_id)"
    " JOIN thread AS t ON t.process_id = p.process_id"
    " JOIN cuda_call AS c ON c.thread_id = t.thread_id AND c.correlation_id = a.correlation_id"
    " WHERE a.kind = 'kernel' AND a.start_ns < c.start_ns"
)
_DROPPED = (
    "SELECT coalesce(sum(count), 0)::BIGINT AS dropped FROM trace_stat WHERE kind = 'dropped'"
)


def run(context: Context) -> None:
    """Record, summarize, and check what can be known of any run."""
    trace = context.home / "stack" / "ppo.duckdb"
    done = start_recording(
        context, trace, "ppo", "--seconds", _SECONDS, "--device", "cuda", calibrates=True
    )
    recorded = done.returncode == 0 and trace.exists()
    context.check(
        "PPO on the GPU is recorded", recorded, "" if recorded else done.stderr.strip()[-300:]
    )
    if not recorded:
        return
    reported = last_object(done.stdout, 0, done.stderr)
    context.tell("PPO", f"{reported['steps']} steps, {reported['updates']} updates", **reported)
    kernels = _one(context, trace, _KERNELS)
    context.check("the trace has kernels", kernels > 0, f"{kernels}")
    processes = _one(context, trace, _MEASURED)
    context.check("the trace says that GPU activity was measured", processes >= 1, f"{processes}")
    early = _one(context, trace, _EARLY)
    context.check("no kernel begins before its call", early == 0, f"{early}")
    dropped = _one(context, trace, _DROPPED)
    context.check("nothing dropped", dropped == 0, f"{dropped}")
    _check_sum(context, trace)
    _check_costs(context, trace)
    _summaries(context, trace)


def _rows(context: Context, trace: Path, query: str) -> list[dict[str, Any]]:
    done = rlscope(context, "sql", str(trace), query, "--format", "json", "--all")
    if done.returncode != 0:
        context.check("the trace can be read", False, done.stderr.strip()[-300:])
        return []
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _one(context: Context, trace: Path, query: str) -> int:
    rows = _rows(context, trace, query)
    return next(iter(rows[0].values())) if rows else -1


def _check_sum(context: Context, trace: Path) -> None:
    """Check that the buckets of each thread sum to its lifetime, to the nanosecond."""
    rows = _rows(
        context, trace,
        "SELECT count(*) AS off FROM (SELECT t.thread_id FROM thread_time AS t"
        " LEFT JOIN breakdown AS b USING (thread_id) GROUP BY t.thread_id, t.lifetime_ns"
        " HAVING coalesce(sum(b.time_ns), 0) <> t.lifetime_ns)",
    )  # fmt: skip
    if rows:
        context.check("times sum to lifetimes", rows[0]["off"] == 0, f"{rows[0]['off']} are off")


def _check_costs(context: Context, trace: Path) -> None:
    """Check that what CUPTI costs was measured on this machine."""
    rows = _rows(context, trace, "SELECT * FROM calibration WHERE event LIKE 'cupti%' ORDER BY ALL")
    measured = {row["event"]: row["mean_ns"] for row in rows if row["mean_ns"] is not None}
    context.check(
        "what CUPTI costs is measured", len(measured) == _CUPTI_EVENTS,
        ", ".join(f"{event} {mean:,.0f} ns" for event, mean in measured.items()), rows=rows,
    )  # fmt: skip


def _summaries(context: Context, trace: Path) -> None:
    for view in _VIEWS:
        _summary(context, trace, view)


def _summary(context: Context, trace: Path, view: str) -> None:
    question = f"summarize --view {view}"
    try:
        done = rlscope(context, "summarize", str(trace), "--view", view, limit_s=_VIEW_LIMIT_S)
    except subprocess.TimeoutExpired:
        context.check(question, False, f"took more than {_VIEW_LIMIT_S:.0f} s")
        return
    (context.home / "stack" / f"{view}.txt").write_text(done.stdout + done.stderr)
    context.check(question, done.returncode == 0, done.stderr.strip()[-200:])
