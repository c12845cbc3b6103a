"""Whether what limits a training on the GPU is found, where one thing was planted into it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpu_check_lib.product import record, rlscope

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

# Program -> its options, and the codes one of which must lead the findings.
_PLANTED = {
    "kernels": ("", {"gpu_bound"}),
    "launches": ("--launches 200 --between 20", {"launch_bound"}),
    "syncs": ("--launches 20 --spin-ns 100000 --between 1000", {"sync_in_step"}),
    "copies": ("--launches 8 --spin-ns 20000", {"copy_bound"}),
    "streams": ("--launches 4 --spin-ns 1000000", {"gpu_bound"}),
    "processes": ("--launches 5 --spin-ns 1000000", {"gpu_bound"}),
    "network": ("--launches 10", {"launch_bound"}),
}


def run(context: Context) -> None:
    """Record each program, and ask what limits it."""
    for name, (options, codes) in _PLANTED.items():
        trace = record(context, name, "training", name, "--mark", *options.split())
        if trace is None:
            continue
        about = ("summarize", str(trace), "--per", "iteration")
        done = rlscope(context, *about, "--format", "json")
        shown = rlscope(context, *about, "--view", "limits").stdout
        (context.home / "stack" / f"limits-{name}.txt").write_text(shown)
        if done.returncode != 0:
            context.check(f"{name}: can be summarized", False, done.stderr.strip()[-300:])
            continue
        found = [(each["code"], each["share"]) for each in json.loads(done.stdout)["findings"]]
        context.check(
            f"{name}: what was planted leads the findings",
            bool(found) and found[0][0] in codes,
            ", ".join(f"{code} {100 * share:.0f} %" for code, share in found) or "no finding",
        )
