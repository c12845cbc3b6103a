"""What a step is given: where to write, what is known, and how to run programs."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_check_lib import verdict
from gpu_check_lib.verdict import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAMS = Path(__file__).with_name("programs")
_LIMIT_S = 60.0


class NotHereError(Exception):
    """The step cannot go on here, and that is no fault; the message says why."""


class ProgramError(Exception):
    """A program of ours failed; the message has the end of what it said."""


@dataclass(slots=True)
class Context:
    """One step at work."""

    step: str
    folder: Path
    """An empty one of its own."""
    home: Path
    """What is put into its folders fixtures and stack, and *.json, is brought home."""
    target_python: str
    target_path: str
    limit_s: float
    known: dict[str, Any]
    missing: dict[str, str]
    _reported: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Context:
        """Return the context that the runner wrote."""
        reported = json.loads(path.read_text())
        return cls(
            **{**reported, "folder": Path(reported["folder"]), "home": Path(reported["home"])}
        )

    def check(self, question: str, passed: bool, detail: str = "", **values: object) -> bool:
        """Answer a question by PASS or FAIL; return whether it passed."""
        self._note(question, Verdict.PASS if passed else Verdict.FAIL, detail, values)
        return passed

    def tell(self, question: str, detail: str = "", **values: object) -> None:
        """Answer a question that has no right answer."""
        self._note(question, Verdict.INFO, detail, values)

    def skip(self, question: str, reason: str) -> None:
        """Say why a question is not asked."""
        self._note(question, Verdict.SKIP, reason, {})

    def _note(
        self, question: str, answer: Verdict, detail: str, values: Mapping[str, object]
    ) -> None:
        finding = Finding(self.step, question, answer, detail, dict(values))
        verdict.append(self.folder / "journal", finding)
        print(finding.line(), flush=True)  # noqa: T201 - the log of the step

    def learn(self, kind: str, **facts: object) -> None:
        """Add facts for the steps behind: of `kind` known, or missing (with the reason)."""
        self._reported.setdefault(kind, {}).update(facts)
        (self.folder / "facts.json").write_text(json.dumps(self._reported))

    def program(self, name: str, *arguments: object) -> list[str]:
        """Return the command of a program of ours, under the Python that has PyTorch."""
        return [self.target_python, str(PROGRAMS / f"{name}.py"), *map(str, arguments)]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a program: ours without what concerns profilers, and `more`."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RLSCOPE_") and not name.endswith("_INJECTION64_PATH")
        }
        kept.pop("PYTHONPATH", None)
        if self.target_path:
            kept["PYTHONPATH"] = self.target_path
        return {**kept, **(more or {})}

    def run(
        self, command: list[str], more: Mapping[str, str] | None = None, limit_s: float = _LIMIT_S
    ) -> dict[str, Any]:
        """Run a program and return the JSON object that is its last line.

        Raises ProgramError where it fails, says nothing, or takes longer.
        """
        try:
            done = subprocess.run(
                command, env=self.environment(more), stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=limit_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ProgramError(f"{Path(command[1]).name} took more than {limit_s:.0f} s") from None
        return last_object(done.stdout, done.returncode, done.stderr)


def last_object(output: str, exit_code: int, errors: str) -> dict[str, Any]:
    """Return the JSON object of a program's last line; ProgramError where there is none."""
    lines = output.strip().splitlines()
    if exit_code != 0 or not lines:
        said = (errors.strip() or output.strip()).splitlines()
        raise ProgramError(f"exit code {exit_code}: {said[-1] if said else 'nothing said'}")
    try:
        reported = json.loads(lines[-1])
    except ValueError:
        raise ProgramError(f"not understood: {lines[-1][:200]}") from None
    if not isinstance(reported, dict):
        raise ProgramError(f"not understood: {lines[-1][:200]}")
    return reported
