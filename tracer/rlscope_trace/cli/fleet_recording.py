"""`rlscope-trace fleet record`, `launch` and `doctor`: recorders on all nodes of a Ray cluster."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_analysis.fleet.members import MANIFEST
from rlscope_analysis.result.column import Column
from rlscope_analysis.result.table import Answer, Table
from rlscope_analysis.wording import count_of
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import AnswerFormat, FormatOption, render
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.errors import OutputExistsError, Said, TracerError, UsageError
from rlscope_trace.fleet.bucket import Bucket, store_of
from rlscope_trace.fleet.coordinator import Fleet, Plan
from rlscope_trace.fleet.manifest import keep_partials, manifest_of, write_manifest
from rlscope_trace.fleet.program import launched_environment, worker_variables
from rlscope_trace.fleet.ray_cluster import RayCluster
from rlscope_trace.outputs.trusted import make_folder
from rlscope_trace.privileges import invoking_environment, invoking_identity
from rlscope_trace.record.launch import launch as launch_program
from rlscope_trace.record.launch import require_program
from rlscope_trace.record.shims import checked_session
from rlscope_trace.rights import become_invoker
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlscope_trace.fleet.coordinator import Member

_TICK_S = 0.2
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FAILURE = 1

AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        help="The Ray cluster: auto, the one of this machine or of RAY_ADDRESS; HOST:PORT.",
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", show_default=False,
        help="A folder for the traces, on each node, and here for the manifest; or s3://BUCKET/DIR.",
    ),
]  # fmt: skip
SessionOption = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="NAME", show_default=False,
        help="Where programs report their operations that were started with the variables of fleet"
        " environment --session NAME.",
    ),
]  # fmt: skip
WithOption = Annotated[
    list[str] | None,
    typer.Option(
        "--with", metavar="OPTION", show_default=False,
        help="One more option of record, for all recorders: --with=--sample-hz=0.",
    ),
]  # fmt: skip
ForceOption = Annotated[bool, typer.Option("--force", help="Replace what lies in the folder.")]


def record(  # noqa: PLR0913 - one parameter per option
    output: OutputOption,
    address: AddressOption = "auto",
    job: Annotated[
        str | None,
        typer.Option(
            "--job", metavar="ID", show_default=False,
            help="Leave out the processes of other jobs, and end with this one.",
        ),
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option(
            "--actor", metavar="PATTERN", show_default=False,
            help="Record only nodes with an actor whose class, name or id is like this.",
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", "-d", min=0.001, show_default=False, help="Stop after so many seconds."
        ),
    ] = None,
    session: SessionOption = None,
    options: WithOption = None,
    force: ForceOption = False,
) -> None:  # fmt: skip
    """Record every node of a Ray cluster, with one recorder on each.

    Ctrl-C stops and saves. Nodes that join later are recorded, too. A recorder that nobody asks
    after for 20 s saves by itself. The exit code is 1 where the trace of a node is missing.
    """
    folder = _prepared(output, force=force)
    with _connected(address) as cluster, Stop() as stop:
        plan = Plan(
            folder, _session(session), None if job is None else cluster.job_of(job), actor,
            _options(options, job, force=force),
        )  # fmt: skip
        fleet = Fleet(cluster, plan, messages.say)
        recording = Running(fleet, stop)
        end_s = None if duration is None else time.monotonic() + duration
        recording.run(lambda: end_s is not None and time.monotonic() >= end_s)
    raise typer.Exit(_FAILURE if recording.is_missing else 0)


def launch(
    command: Annotated[
        list[str], typer.Argument(help="The program to launch, after --.", show_default=False)
    ],
    output: OutputOption,
    address: AddressOption = "auto",
    options: WithOption = None,
    force: ForceOption = False,
) -> None:
    """Record every node of a Ray cluster while a program runs that is launched here.

    Its workers report their phases and what they do on GPUs. The exit code is the program's own.
    """
    identity = invoking_identity()
    # Before anything is recorded for it.
    require_program(command, invoking_environment(identity))
    # All is done as that user, the program, too: whoever records has rights of its own.
    become_invoker(identity)
    if identity is not None and identity.uid == os.geteuid():
        identity = None
    folder = _prepared(output, force=force)
    session = _session(None)
    with _connected(address) as cluster, Stop() as stop:
        plan = Plan(folder, session, None, None, _options(options, None, force=force))
        fleet = Fleet(cluster, plan, messages.say)
        here = next((one for one in fleet.examine() if cluster.is_here(one.node)), None)
        raylet_pid = here.facts.raylet_pid if here is not None and here.facts is not None else 0
        program = launch_program(
            command, identity=identity,
            environment=launched_environment(cluster.address, session, raylet_pid),
        )  # fmt: skip
        if here is not None:
            fleet.plan = replace(plan, driver=(program.pid, here.node.node_id))
        recording = Running(fleet, stop)
        try:
            recording.start()
            program.release()
        except BaseException:
            program.abandon()
            raise
        recording.run(lambda: program.poll() is not None, forward=program.forward_signal)
        code = program.wait()
    raise typer.Exit(code or 0)


def doctor(
    address: AddressOption = "auto",
    output_format: FormatOption = AnswerFormat.TABLE,
) -> None:
    """Check whether each node of a Ray cluster can be recorded; exit 0 only if all can."""
    with _connected(address) as cluster:
        plan = Plan(Path("/nonexistent"), _session(None))
        members = Fleet(cluster, plan, messages.say).examine()
    columns = tuple(
        map(Column, ("node", "address", "head", "can be recorded", "finding", "version", "python"))
    )
    rows = [
        (
            one.name, one.node.address, one.node.is_head, one.problem is None,
            " ".join(filter(None, (one.problem, one.remedy and f"({one.remedy})"))) or None,
            None if one.facts is None else one.facts.version,
            None if one.facts is None else one.facts.python,
        )
        for one in members
    ]  # fmt: skip
    table = Table("nodes", "", columns, rows)
    facts = {
        "nodes": [dict(zip([column.name for column in columns], row, strict=True)) for row in rows]
    }
    answer = Answer(tables=(table,), data=table, facts=facts)
    write_stdout(render(answer, output_format, limit=None))
    if not rows or any(one.problem is not None for one in members):
        raise typer.Exit(_FAILURE)


def environment(
    session: Annotated[
        str, typer.Option("--session", metavar="NAME", help="As fleet record --session has it.")
    ],
) -> None:
    """Print the variables with which programs report to fleet record --session NAME.

    For `export $(rlscope-trace fleet environment --session NAME)` before `ray start`, or the
    env_vars of a runtime environment.
    """
    variables = worker_variables(checked_session(session))
    write_stdout([f"{name}={shlex.quote(value)}\n" for name, value in variables.items()])


@dataclass(slots=True)
class Running:
    """A recording of a fleet, from its start to its last words."""

    fleet: Fleet
    stop: Stop
    is_missing: bool = False
    """Whether a node has no trace."""
    _is_started: bool = False

    def start(self) -> None:
        """Start all recorders and say where. Raises TracerError where none can be started."""
        self.fleet.open()
        self._is_started = True
        recording = [one for one in self.fleet.members if one.is_recording]
        names = ", ".join(one.name for one in recording[:8])
        more = f" and {len(recording) - 8} more" if len(recording) > 8 else ""
        messages.say(
            f"recording {count_of(len(recording), 'node')}: {names}{more}; Ctrl-C stops and saves"
        )
        for one in self.fleet.members:
            if one.problem is not None:
                messages.warning(f"{one.name} is not recorded: {one.problem}", one.remedy)

    def run(
        self, is_done: Callable[[], bool], forward: Callable[[int], None] | None = None
    ) -> None:
        """Record until that is done, or a signal; save, and say what there is."""
        started_s = time.monotonic()
        if not self._is_started:
            self.start()
        while not is_done():
            number = self.stop.wait(_TICK_S)
            if number and forward is not None:
                forward(number)
            elif number:
                break
            # Whether it is over is a question to the cluster, too: not at each turn.
            if self.fleet.tick() and self.fleet.is_over():
                break
        messages.say(f"saving after {time.monotonic() - started_s:.1f} s")
        self.fleet.close()
        self._report()

    def _report(self) -> None:
        plan, members = self.fleet.plan, self.fleet.members
        try:
            kept = keep_partials(plan.folder, members)
            path = write_manifest(plan.folder, manifest_of(members, plan))
        except OSError as error:
            raise TracerError(
                f"cannot write {plan.folder / MANIFEST}: {error.strerror}", hint="-o OTHER"
            ) from error
        self._report_members(members)
        saved = sum(one.ended is not None and one.ended.has_trace for one in members)
        where = f"; {count_of(kept, 'trace')} on other machines" if kept else ""
        messages.say(f"wrote {path}: {count_of(saved, 'trace')}{where}")
        shown = store_of(plan.folder) or str(plan.folder)
        messages.say(f"more: rlscope-trace fleet summarize {shell_line([shown])}")

    def _report_members(self, members: Sequence[Member]) -> None:
        for one in members:
            ended = one.ended
            if ended is None or not ended.has_trace:
                self.is_missing = True
                place = self.fleet.plan.folder / f"{one.name}.duckdb"
                hint = one.remedy or f"its recorder saves by itself: look for {place} there"
                messages.warning(f"{one.name} has no trace: {one.problem}", hint)
                continue
            for warning in Said.of(ended.words).warnings:
                messages.say(f"{one.name}: warning: {warning}")


class Stop:
    """Signals that end a recording, in the order they came."""

    def __init__(self) -> None:
        self._came = threading.Event()
        self._numbers: list[int] = []

    def __enter__(self) -> Stop:
        # After Ray, which sets one of its own.
        for number in _ENDING:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)

    def _note(self, number: int, _frame: object) -> None:
        """Take a signal; another Ctrl-C while it saves ends the command."""
        if self._numbers.count(number) and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._numbers.append(number)
        self._came.set()

    def wait(self, seconds: float) -> int:
        """Return a signal that came, once; 0: none."""
        if not self._came.wait(seconds):
            return 0
        self._came.clear()
        return self._numbers[-1]


@contextmanager
def _connected(address: str) -> Iterator[RayCluster]:
    cluster = RayCluster(address)
    try:
        yield cluster
    finally:
        cluster.close()


def _prepared(folder: Path, *, force: bool) -> Path:
    store = store_of(folder)
    if store is not None:
        if Bucket(store).has(MANIFEST) and not force:
            raise _exists(f"{store}/{MANIFEST}")
        return Path(store)
    folder = folder.absolute()
    try:
        make_folder(folder)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror}", hint="-o OTHER") from error
    if (folder / MANIFEST).exists() and not force:
        raise _exists(str(folder / MANIFEST))
    return folder


def _exists(manifest: str) -> OutputExistsError:
    return OutputExistsError(f"{manifest} exists", hint="--force to replace it, or -o OTHER")


def _session(name: str | None) -> str:
    return f"fleet-{secrets.token_hex(8)}" if name is None else checked_session(name)


def _options(options: Sequence[str] | None, job: str | None, *, force: bool) -> tuple[str, ...]:
    of_job = () if job is None else ("--ray-job", job)
    return (*(options or ()), *of_job, *(("--force",) if force else ()))
