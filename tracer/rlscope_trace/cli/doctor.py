"""`rlscope-trace doctor`: says whether tracing works here, and what to do where it does not."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_trace.cli.output import write_stdout
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.record.preflight import Finding, run_checks, tracing_works, working_backend
from rlscope_trace.record.preflight.phases import check_phases


class DoctorFormat(str, Enum):
    """How the findings are printed."""

    TABLE = "table"
    JSON = "json"


def doctor(
    output_format: Annotated[
        DoctorFormat, typer.Option("--format", help="Print a table, or JSON.")
    ] = DoctorFormat.TABLE,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The trace to be written: its directory is checked."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python",
            help="A Python, whose libraries are imported to see whether phases are found in them.",
            metavar="PYTHON",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check everything that tracing needs; exit 0 only if it works."""
    findings = run_checks(output, argv=["doctor"])
    if python is not None:
        findings += check_phases(python, invoking_identity())
    render = _as_json if output_format is DoctorFormat.JSON else _as_table
    write_stdout([render(findings) + "\n"])
    if not tracing_works(findings):
        raise typer.Exit(1)


def _as_json(findings: Sequence[Finding]) -> str:
    """Return one object: the verdict, the backend, the findings."""
    verdict = {
        "works": tracing_works(findings),
        "backend": working_backend(findings),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(verdict, indent=2)


def _as_table(findings: Sequence[Finding]) -> str:
    """Return a line per finding, its remedy below it, and the verdict last."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<7}  {finding.name:<{width}}  {finding.what}")
        if finding.remedy:
            lines.append(f"{'':<7}  {'':<{width}}  hint: {finding.remedy}")
    lines.append(_verdict(findings))
    return "\n".join(lines)


def _verdict(findings: Sequence[Finding]) -> str:
    """Return the last line: whether tracing works, and by which backend."""
    if tracing_works(findings):
        return f"tracing works, by backend {working_backend(findings)}"
    count = sum(finding.level == "error" for finding in findings)
    return f"tracing does not work: {count} {'error' if count == 1 else 'errors'} above"
