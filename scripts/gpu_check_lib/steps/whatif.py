"""What `whatif` predicts of programs on the GPU, and how long they took when really changed."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_check_lib.home import write_json
from gpu_check_lib.product import record, rlscope

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

_PAIRS = 3
_ERROR = 0.15


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a program's options, and the question that it answers."""

    options: str
    asked: str


_PROGRAMS = {
    "kernels": ("", (Change("--spin-ns 300000", "--kernel-speedup 2"),
                     Change("--simulation 100000", "--speedup simulation=0.1"))),
    "launches": ("--launches 200 --between 20 --simulation 20000",
                 (Change("--graph", "--cuda-graph step"),
                  Change("--launches 100", "--count backpropagation=0.5"))),
    "syncs": ("--launches 20 --spin-ns 100000 --between 1000",
              (Change("--spin-ns 20000", "--kernel-speedup 5"),)),
    "streams": ("--launches 4 --spin-ns 1000000",
                (Change("--spin-ns 500000", "--kernel-speedup 2"),)),
    "network": ("--launches 10 --simulation 50000",
                (Change("--graph", "--cuda-graph step"),
                 Change("--simulation 200000", "--speedup simulation=0.25"))),
}  # fmt: skip


def run(context: Context) -> None:
    """Predict from one trace of each program; then measure its versions in turn, untraced."""
    rows: list[dict[str, Any]] = []
    for name, (options, changes) in _PROGRAMS.items():
        trace = record(context, name, "training", name, "--mark", *options.split())
        if trace is None:
            continue
        for change in changes:
            rows.append(_judge(context, name, options, change, _ask(context, str(trace), change)))
            write_json(context.home / "whatif.json", {"rows": rows})


def _ask(context: Context, trace: str, change: Change) -> dict[str, Any]:
    done = rlscope(
        context, "whatif", trace, "--per", "iteration", *change.asked.split(), "--format", "json"
    )
    if done.returncode != 0:
        return {"refused": done.stderr.strip()[-300:]}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _judge(
    context: Context, name: str, options: str, change: Change, answer: dict[str, Any]
) -> dict[str, Any]:
    ratios = []
    for number in range(_PAIRS):
        took = {}
        for one in ("", change.options)[:: 1 if number % 2 else -1]:
            command = context.program("training", name, *options.split(), *one.split())
            took[one] = context.run(command)["iteration_ns"]
        ratios.append(took[change.options] / took[""])
    truth = statistics.median(ratios)
    row = {"program": name, "change": change.asked, "measured": ratios, "answer": answer}
    question = f"{name}, {change.asked}"
    if "refused" in answer:
        context.tell(f"{question}: refused", f"measured {truth:.3f}; {answer['refused']}")
        return row
    ratio, low, high = (answer[key] for key in ("duration_ratio", "low", "high"))
    detail = (
        f"predicted {ratio:.3f} [{low:.3f}, {high:.3f}], grade {answer['grade']}, fidelity"
        f" {100 * answer['fidelity']:+.1f} %; measured {truth:.3f}"
    )
    context.check(f"{question}: within 15 %", abs(ratio / truth - 1) <= _ERROR, detail)
    context.check(f"{question}: the interval holds it", low <= truth <= high, detail)
    return row
