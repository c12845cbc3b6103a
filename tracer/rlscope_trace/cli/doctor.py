"""`rlscope-trace doctor`: says whether tracing works here, and what to do where it does not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.result.column import Column
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import NO_VALUE, Answer, Table
from rlscope_analysis.sentences import fact_reason
from rlscope_trace.cli.answers import AnswerFormat, FormatOption, render
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.record.preflight import Finding, run_checks, tracing_works, working_backend
from rlscope_trace.record.preflight.phases import check_phases


def doctor(
    output_format: FormatOption = AnswerFormat.TABLE,
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
        findings += check_phases(python, invoking_identity(), fact_reason)
    write_stdout(render(_answer_of(findings), output_format, limit=None))
    if not tracing_works(findings):
        raise typer.Exit(1)


def _answer_of(findings: Sequence[Finding]) -> Answer:
    """Lay out the findings, each above its remedy, and the verdict."""
    columns = (Column("level"), Column("name", label="check"), Column("what", label="finding"))
    rows: list[tuple[object, ...]] = []
    for finding in findings:
        rows.append((finding.level, finding.name, finding.what))
        if finding.remedy:
            rows.append((NO_VALUE, NO_VALUE, note("hint", remedy=finding.remedy)))
    works, backend = tracing_works(findings), working_backend(findings)
    if works:
        verdict = note("tracing_works", backend=backend)
    else:
        verdict = note("tracing_fails", errors=sum(one.level == "error" for one in findings))
    data = [(one.level, one.name, one.what, one.remedy) for one in findings]
    return Answer(
        tables=(Table("findings", "", columns, rows),),
        data=Table("findings", "", (*columns, Column("remedy")), data),
        facts={"works": works, "backend": backend, "findings": list(findings)},
        closing=(verdict,),
        facts_hold_rows=True,
    )
