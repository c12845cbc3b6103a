"""`rlscope-trace whatif`: what a change would do, predicted from a trace."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.trace import open_trace
from rlscope_analysis.whatif.answer import what_if
from rlscope_analysis.whatif.changes import Changes, Replaced, Scaled
from rlscope_analysis.whatif.check import check
from rlscope_analysis.whatif.vectorised import Vectorised, fitted, sizes_up_to
from rlscope_analysis.wording import printable
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FormatOption,
    FromOption,
    PerOption,
    ToOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.probing import probe
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.errors import UsageError
from rlscope_trace.outputs.appended import append_line
from rlscope_trace.privileges import invoking_identity

_MOST = 4096
_LARGEST = 1e6


def whatif(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace.", show_default=False)],
    after: Annotated[
        Path | None,
        typer.Argument(help="With --check: the trace of the changed program.", show_default=False),
    ] = None,
    speedup: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION=K",
            help="The operation K times as fast; inf: it costs nothing. May be repeated.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION=K",
            help="The operation K times as often, as with other epochs. May be repeated.",
            show_default=False,
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=_MOST, help="On so many CPUs.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=_MOST,
            help="With so many worker processes, each doing what one does now: a lower bound."
            " 0: the leading process steps all environments itself.",
            show_default=False,
        ),
    ] = None,
    replace_by: Annotated[
        list[str] | None,
        typer.Option(
            "--replace",
            metavar="OPERATION=probe:MODULE:FACTORY",
            help="The operation replaced by a step of what MODULE.FACTORY() returns, which is"
            " measured first: it runs, as you. May be repeated.",
            show_default=False,
        ),
    ] = None,
    vectorize: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATION=probe:MODULE:FACTORY",
            help="The operation done by one simulator of --envs N environments, which FACTORY(N)"
            " returns: measured at several N first, as you.",
            show_default=False,
        ),
    ] = None,
    envs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=1 << 20, help="With --vectorize: how many.", show_default=False
        ),
    ] = None,
    fuse: Annotated[
        int,
        typer.Option(
            metavar="K", min=1, max=1 << 20, help="With --vectorize: K steps in one call."
        ),
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=_MOST,
            help="Parallel regions (OpenMP) of the leading process with so many threads.",
            show_default=False,
        ),
    ] = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Two operations of the leading thread at the same time.",
            show_default=False,
        ),
    ] = None,
    kernel_speedup: Annotated[
        str | None,
        typer.Option(
            metavar="K",
            help="GPU kernels K times as fast; inf: they cost nothing.",
            show_default=False,
        ),
    ] = None,
    cuda_graph: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION",
            help="What the operation launches is launched as one CUDA graph. May be repeated.",
            show_default=False,
        ),
    ] = None,
    change: Annotated[
        str | None,
        typer.Option(
            metavar="CHANGES",
            help='The same in one text: "simulation=2, count backpropagation=0.5, cpus=1".',
            show_default=False,
        ),
    ] = None,
    is_check: Annotated[
        bool, typer.Option("--check", help="Hold the prediction to the trace AFTER.")
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --check: add the outcome to this file, one JSON object a line.",
            show_default=False,
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Replay only so many iterations in a row, those most like all.",
            show_default=False,
        ),
    ] = None,
    per: PerOption = None,
    start: FromOption = None,
    end: ToOption = None,
    output_format: FormatOption = AnswerFormat.TABLE,
) -> None:
    """Predict how long an iteration would take with something changed.

    The iterations of the trace are replayed with the change. Without one, it ranks what would help
    most. Grade A, B, or C: a bound or a rough estimate.
    """
    changes = _asked(speedup or [], count or [], cpus, workers, change)
    changes = replace(
        changes, kernels=_kernels(kernel_speedup), graphs=tuple(cuda_graph or ()),
        threads=threads, overlap=_overlap(overlap),
        # Probes run last: what else is asked for is in order by then.
        replaced=tuple(_probed(replace_by or [])),
        vectorised=tuple(_vectorised(vectorize, envs, fuse)),
    )  # fmt: skip
    if iterations is not None and is_check:
        raise UsageError("--check replays all iterations", hint="whatif without --iterations")
    _usage(changes, after, is_check=is_check, ledger=ledger)
    write_nothing_but(*([] if ledger is None else [ledger]))
    with (
        telling_interrupts(),
        sweeping() as progress,
        damage_reported(trace),
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        if after is None:
            found = what_if(opened, changes, per=per, most=iterations)
        else:
            with damage_reported(after), open_trace(after, start=start, end=end) as changed:
                found = check(opened, changed, changes, per=per)
        chunks = list(render(found, output_format, limit=None))
        line = json.dumps(json.loads("".join(render(found, AnswerFormat.JSON, limit=None))))
    if ledger is not None:
        append_line(ledger, line)
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)


def _usage(changes: Changes, after: Path | None, *, is_check: bool, ledger: Path | None) -> None:
    hint = "rlscope-trace whatif --check BEFORE AFTER --change simulation=2"
    if is_check != (after is not None):
        raise UsageError("--check takes two traces, and without it there is one", hint=hint)
    if is_check and changes == Changes():
        raise UsageError("--check needs the change that was made", hint=hint)
    if ledger is not None and not is_check:
        raise UsageError("--ledger goes with --check", hint=hint)


def _asked(
    speedup: list[str], count: list[str], cpus: int | None, workers: int | None, change: str | None
) -> Changes:
    """Put the options together with a --change as "simulation=2, cpus=1". Raises UsageError."""
    speedup = [*speedup]
    for part in (change or "").split(",") if change is not None else ():
        name, _, number = part.strip().rpartition("=")
        if name in ("cpus", "workers"):
            least = 1 if name == "cpus" else 0
            if not re.fullmatch("[0-9]{1,9}", number) or not least <= int(number) <= _MOST:
                raise UsageError(f"--change {printable(part)}: no number of {least} to {_MOST}",
                                 hint="--change cpus=1")  # fmt: skip
            cpus, workers = (int(number), workers) if name == "cpus" else (cpus, int(number))
        elif name.startswith("count "):
            count = [*count, f"{name.removeprefix('count ')}={number}"]
        else:
            speedup.append(part.strip())
    scaled = (*_scaled("--speedup", speedup), *_scaled("--count", count))
    return Changes(scaled, cpus, workers)


def _scaled(option: str, texts: list[str]) -> Iterator[Scaled]:
    """Read OPERATION=K. Raises UsageError."""
    is_count = option == "--count"
    for text in texts:
        operation, _, number = text.rpartition("=")
        value = _number(number)
        if not operation or value is None or (is_count and value == math.inf):
            raise UsageError(
                f"{option} {printable(text)}: this is not OPERATION=NUMBER above 0",
                hint=f"{option} simulation=2",
            )
        yield Scaled(operation, value if is_count else 1 / value, is_count)


def _probed(texts: list[str]) -> Iterator[Replaced]:
    """Run the probes of --replace. Raises UsageError, TracerError."""
    for operation, module, factory in [_probe_of("--replace", text) for text in texts]:
        ((mean_ns, stderr_ns),) = probe(module, factory, invoking_identity())
        yield Replaced(operation, f"{module}:{factory}", mean_ns, stderr_ns)


def _vectorised(text: str | None, envs: int | None, fuse: int) -> Iterator[Vectorised]:
    """Run the probe of --vectorize. Raises UsageError, TracerError, TraceError."""
    if (text is None) != (envs is None) or (text is None and fuse > 1):
        raise UsageError("--vectorize and --envs go together, and --fuse with both",
                         hint="--vectorize simulation=probe:my_envs:make --envs 512")  # fmt: skip
    if text is None or envs is None:
        return
    operation, module, factory = _probe_of("--vectorize", text)
    sizes = sizes_up_to(envs)
    found = probe(module, factory, invoking_identity(), sizes)
    costs = [(size, mean_ns) for size, (mean_ns, _) in zip(sizes, found, strict=True)]
    yield fitted(operation, f"{module}:{factory}", envs, costs, fused=fuse)


def _probe_of(option: str, text: str) -> tuple[str, str, str]:
    """Read OPERATION=probe:MODULE:FACTORY. Raises UsageError."""
    operation, found, place = text.rpartition("=probe:")
    module, _, factory = place.partition(":")
    names = [*module.split("."), factory]
    if not found or not operation or not all(name.isidentifier() for name in names):
        raise UsageError(f"{option} {printable(text)}: this is not OPERATION=probe:MODULE:FACTORY",
                         hint=f"{option} simulation=probe:my_envs:make")  # fmt: skip
    return operation, module, factory


def _overlap(text: str | None) -> tuple[str, str] | None:
    """Read A,B. Raises UsageError."""
    if text is None:
        return None
    first, _, second = text.partition(",")
    if not first or not second or first == second:
        raise UsageError(f"--overlap {printable(text)}: these are not two operations",
                         hint="--overlap simulation,inference")  # fmt: skip
    return first, second


def _kernels(text: str | None) -> float | None:
    """Read a --kernel-speedup as a factor of time. Raises UsageError."""
    value = None if text is None else _number(text)
    if text is not None and value is None:
        raise UsageError(f"--kernel-speedup {printable(text)}: this is no number above 0",
                         hint="--kernel-speedup 2")  # fmt: skip
    return None if value is None else 1 / value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == math.inf or 1 / _LARGEST <= value <= _LARGEST else None
