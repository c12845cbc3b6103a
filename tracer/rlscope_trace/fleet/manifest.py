"""What a recording of a fleet leaves beside its traces: which there are, where, by which clock."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rlscope_analysis.fleet.members import FORMAT, MANIFEST, PARTIAL_SUFFIX, VERSION
from rlscope_trace.fleet.bucket import Bucket, store_of
from rlscope_trace.outputs.place import write_output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_trace.fleet.coordinator import Member, Plan
    from rlscope_trace.fleet.keeper import Ended


def manifest_of(members: Sequence[Member], plan: Plan) -> dict[str, Any]:
    """Return the manifest of a recording that has ended."""
    saved = [(one, one.ended) for one in members if one.ended is not None and one.ended.has_trace]
    reference = saved[0][1] if saved else None
    return {
        "format": FORMAT, "version": VERSION, "session": plan.session, "job": plan.job,
        "members": [_entry(member, ended, reference) for member, ended in saved],
        "lost": [_lost(member) for member in members if member.problem is not None],
    }  # fmt: skip


def _entry(member: Member, ended: Ended, reference: Ended | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "node": member.name, "trace": f"{member.name}.duckdb", "lies_on": member.node.host,
        "address": member.node.address, "node_id": member.node.node_id,
        "recovered": ended.was_recovered, "partial_mark": ended.mark,
    }  # fmt: skip
    if ended is reference:
        entry["clock"] = {"is_reference": True}
    elif ended.knots and ended.pairs and reference is not None and reference.pairs:
        entry["clock"] = {
            "pairs": ended.pairs, "knots": ended.knots, "reference_pairs": reference.pairs,
            "pair_bound_ns": max(ended.pair_bound_ns, reference.pair_bound_ns),
        }  # fmt: skip
    return entry


def _lost(member: Member) -> dict[str, Any]:
    return {**asdict(member.node), "node": member.name, "why": member.problem}


def write_manifest(folder: Path, manifest: dict[str, Any]) -> str:
    """Write it, and return where. Raises OSError, and TracerError for an object store."""
    text = json.dumps(manifest) + "\n"
    store = store_of(folder)
    if store is not None:
        Bucket(store).write(MANIFEST, text.encode())
        return f"{store}/{MANIFEST}"
    write_output(folder / MANIFEST, text.encode(), overwrite=True)
    return str(folder / MANIFEST)


def keep_partials(folder: Path, members: Sequence[Member]) -> int:
    """Keep the answers about traces that lie elsewhere; return how many. Raises OSError."""
    kept = 0
    if store_of(folder) is not None:
        return kept
    for member in members:
        trace = folder / f"{member.name}.duckdb"
        if member.ended is None or member.ended.partial is None or trace.exists():
            continue
        partial = folder / f"{trace.name}{PARTIAL_SUFFIX}"
        write_output(partial, member.ended.partial, overwrite=True)
        kept += 1
    return kept
