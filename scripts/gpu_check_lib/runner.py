"""Runs the steps one after the other, each in a process of its own and under its own limit."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_check_lib import plan, processes, verdict
from gpu_check_lib.verdict import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_check_lib.home import Home
    from gpu_check_lib.plan import Facts, Step

SCRIPTS = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class Run:
    """One run of all that was asked for."""

    home: Home
    scratch: Path
    python: str
    """That has the package, or ours."""
    target_python: str
    """That has PyTorch."""
    target_path: str
    """What is put in front of its PYTHONPATH; "": nothing."""
    budget_s: float
    facts: Facts
    say: Callable[[str], None]
    began_s: float = field(default_factory=time.monotonic)
    findings: list[Finding] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        """How much of the budget is left."""
        return self.budget_s - (time.monotonic() - self.began_s)

    def note(self, finding: Finding) -> None:
        """Keep a finding, and tell it."""
        self.findings.append(finding)
        self.say(finding.line())
        self.home.write_json("report.json", self.report())

    def report(self) -> dict[str, Any]:
        """Return all that is known so far."""
        return {
            "tally": verdict.tally(self.findings),
            "known": self.facts.known,
            "missing": self.facts.missing,
            "findings": [{**asdict(f), "verdict": f.verdict.value} for f in self.findings],
            "wall_s": round(time.monotonic() - self.began_s, 1),
        }


def run_all(run: Run, steps: Sequence[Step]) -> None:
    """Run the steps as far as what they need is there; what they find is written at once."""
    for step in steps:
        reason = plan.obstacle(step, run.facts, run.left_s)
        if reason is not None:
            run.note(Finding(step.name, "not asked", Verdict.SKIP, reason))
            continue
        _run_step(run, step)


def _run_step(run: Run, step: Step) -> None:
    folder = run.scratch / step.name
    folder.mkdir()
    context = folder / "context.json"
    context.write_text(json.dumps(_context(run, step, folder)))
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(SCRIPTS), environment.get("PYTHONPATH", "")])
    )
    done = processes.run(
        [run.python, "-m", "gpu_check_lib.step", str(context)],
        folder / "step.log",
        limit_s=plan.limit(step, run.left_s),
        environment=environment,
    )
    for finding in [*verdict.read(folder / "journal"), *_of_its_end(step, done)]:
        run.note(finding)
    facts = folder / "facts.json"
    if facts.exists():
        run.facts.update(json.loads(facts.read_text()))
    run.home.keep_log(step.name, folder / "step.log")
    run.home.pack()


def _context(run: Run, step: Step, folder: Path) -> dict[str, Any]:
    return {
        "step": step.name,
        "folder": str(folder),
        "home": str(run.home.staging),
        "target_python": run.target_python,
        "target_path": run.target_path,
        "limit_s": plan.limit(step, run.left_s),
        "known": run.facts.known,
        "missing": run.facts.missing,
    }


def _of_its_end(step: Step, done: processes.Done) -> list[Finding]:
    """Return what the end of a step's process says, if it was no good one."""
    if done.timed_out:
        return [Finding(step.name, "ended", Verdict.FAIL, f"stopped after {done.wall_s:.0f} s")]
    if done.exit_code != 0:
        lines = done.output.strip().splitlines()
        reported = lines[-1] if lines else f"exit code {done.exit_code}"
        return [Finding(step.name, "ended", Verdict.FAIL, reported[:300])]
    return []
