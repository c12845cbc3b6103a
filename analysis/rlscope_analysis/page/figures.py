"""The six numbers of the first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.cpu_list import listed_cpus
from rlscope_analysis.result.page import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.overview.values import Overview


def figures(reported: Overview) -> Iterator[Figure]:
    """Yield them; each is a column of a view, or their mean or sum."""
    pace = reported.pace
    if pace is None or pace["mean_ns"] is None or pace["source"] == "whole":
        yield Figure("duration", reported.duration_ns)
        yield Figure("processes", reported.machine["processes"])
    else:
        steps = pace["steps_per_s"]
        if steps is not None:
            yield Figure("environment_steps", steps)
        beside = {"p99_ns": pace["p99_ns"], "iterations": pace["iterations"]}
        yield Figure("iteration", pace["mean_ns"], beside)
        if steps is None:
            more = {"is_without_first": pace["first_ns"] is not None}
            yield Figure("iterations", pace["iterations"], more)
    lead = reported.lead
    yield Figure(
        "lead_cpu", lead["cpu_share"] if lead else None, {"role": lead["role"] if lead else "main"}
    )
    yield _waits(reported)
    yield _all_cpus(reported)
    yield _gpu(reported)


def _waits(reported: Overview) -> Figure:
    lead = reported.lead
    workers = [row for row in reported.processes if row["role"] == "worker" and not row["is_lead"]]
    known = [row["waits_share"] for row in workers if row["waits_share"] is not None]
    if known:
        return Figure("workers_wait", sum(known) / len(known), {"workers": len(workers)})
    share = lead["queue_share"] if lead else None
    return Figure("lead_queue", share, {"role": lead["role"] if lead else "main"})


def _all_cpus(reported: Overview) -> Figure:
    known = [row["cpu_share"] for row in reported.processes]
    used = None if not known or None in known else sum(known)
    return Figure("all_cpus", used, {"cpus": len(listed_cpus(reported.machine["cpus"])) or None})


def _gpu(reported: Overview) -> Figure:
    gpu = reported.gpu
    is_known = gpu.processes and gpu.span_ns
    share = gpu.busy_ns / gpu.span_ns if is_known and gpu.span_ns else None
    return Figure("gpu", share, {"is_unused": bool(reported.machine["is_gpu_unused"])})
