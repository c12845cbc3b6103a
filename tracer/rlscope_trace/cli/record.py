"""`rlscope-trace record`: traces running processes, or a program from its first instruction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_trace.cli import messages
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.gpu import CuptiName, GraphsName, gpu_settings
from rlscope_trace.cli.last_option import last_seconds
from rlscope_trace.cli.live_line import ProgressMode
from rlscope_trace.cli.probe_options import (
    CudaCallsName,
    GilName,
    MessagesName,
    TransitionsName,
    check_patterns,
    default_sample_hz,
)
from rlscope_trace.cli.recording import CaptureName, LoaderName, Recording, Settings, opened
from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.privileges import invoking_environment, invoking_identity
from rlscope_trace.record import shims, target, watch
from rlscope_trace.record.jax_profile import parse_window
from rlscope_trace.record.launch import SignalSetup, launch
from rlscope_trace.record.lease import Lease
from rlscope_trace.record.phase_rows import read_rows
from rlscope_trace.record.probes.settings import ProbeSettings
from rlscope_trace.record.ray_facts import RaySettings, checked_jobs

if TYPE_CHECKING:
    from rlscope_trace.ingest.writer.trace_writer import TraceReport

_SAVED_WITH_LOSSES = 3
_DEFAULT_OUTPUT = Path("trace.duckdb")


def record(  # noqa: PLR0913 - one parameter per option
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The program to launch, after --.", show_default=False),
    ] = None,
    pid: Annotated[
        list[str] | None,
        typer.Option("--pid", "-p", help="Processes to attach to: PID[,PID].", show_default=False),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", "-d", min=0.001, help="Stop after this many seconds.", show_default=False
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--last",
            metavar="TIME",
            show_default=False,
            help="Keep only the end: 60 (seconds), 90s, 5m or 1h, and up to a quarter more. The"
            " disk holds no more than that, however long the program runs.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The trace to write.")
    ] = _DEFAULT_OUTPUT,
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
    loader: Annotated[
        LoaderName, typer.Option(help="What loads the probes: libbpf, or Debian's bcc.")
    ] = LoaderName.LIBBPF,
    capture: Annotated[
        CaptureName, typer.Option(help="The kind of probes; auto takes the best that works.")
    ] = CaptureName.AUTO,
    ring_mib: Annotated[
        int, typer.Option(help="Size of the ring buffer in MiB, a power of two.")
    ] = 32,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 if anything was lost.")
    ] = False,
    progress: Annotated[
        ProgressMode, typer.Option(help="When to show the live line on stderr.")
    ] = ProgressMode.AUTO,
    auto: Annotated[
        bool,
        typer.Option(
            "--auto/--no-auto", help="Find the phases of RL programs that mark no operations."
        ),
    ] = True,
    phases: Annotated[
        Path | None,
        typer.Option(
            help="Rows of your own for the table of phases: the functions and timers of your"
            " program or framework (docs/phases.md).",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    jax_profile: Annotated[
        str | None,
        typer.Option(
            help="Have JAX profile the launched program, too: for SECONDS, from so many seconds"
            " after JAX was imported; beside the trace, for import xplane.",
            metavar="FROM:SECONDS",
            show_default=False,
        ),
    ] = None,
    nvtx: Annotated[
        str,
        typer.Option(
            help="Whose NVTX ranges to record besides those of Python, PyTorch, NCCL and programs:"
            " all, or some of cublas,cudnn,cufft,cusolver,cusparse,...; off: record none.",
            metavar="MODULES",
        ),
    ] = "",
    inject: Annotated[
        bool,
        typer.Option(
            "--inject",
            help="With --pid: load the shim into the running processes to record their operations.",
        ),
    ] = False,
    transitions: Annotated[
        TransitionsName,
        typer.Option(
            help="Which calls out of Python to record one by one: those into simulators,"
            " all (also into the ML backend: expensive), or none (off)."
        ),
    ] = TransitionsName.SIMULATOR,
    simulator: Annotated[
        list[str] | None,
        typer.Option(
            "--simulator",
            help="A package, or the files, of a simulator of yours:"
            " --simulator mysim --simulator '*/libphysics*.so'.",
            metavar="NAME|GLOB",
            show_default=False,
        ),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            help="The same for an ML backend, for example numpy.",
            metavar="NAME|GLOB",
            show_default=False,
        ),
    ] = None,
    sample_hz: Annotated[
        int | None,
        typer.Option(
            "--sample-hz",
            min=0,
            max=9999,
            help="Samples per second of each CPU; 0: take none. Left out: 99 in a virtual"
            " machine, 999 on metal.",
            show_default=False,
        ),
    ] = None,
    gil: Annotated[
        GilName,
        typer.Option(help="Of the GIL: who waits for it; full adds who releases it (expensive)."),
    ] = GilName.WAITS,
    messages_of: Annotated[
        MessagesName,
        typer.Option(
            "--messages",
            help="Who sent a message that came while its reader waited for a CPU: over sockets"
            " (between processes of this machine), all (also over pipes, and where the reader asks"
            " in a loop: a probe on every system call of the machine), or off.",
        ),
    ] = MessagesName.SOCKETS,
    probe_budget: Annotated[
        float,
        typer.Option(
            "--probe-budget",
            min=0.01,
            max=1000,
            metavar="PERCENT",
            help="What recording calls may cost, of the target's CPU time: probes of short"
            " and frequent functions are dropped until it fits.",
        ),
    ] = 2.0,
    cuda_calls: Annotated[
        CudaCallsName,
        typer.Option(
            "--cuda-calls",
            help="Record calls of the CUDA API by probes on libcuda and libcudart: auto, in"
            " processes whose calls CUPTI does not tell, such as those of --pid; on, in all; off.",
        ),
    ] = CudaCallsName.AUTO,
    cupti: Annotated[
        CuptiName,
        typer.Option(
            envvar="RLSCOPE_CUPTI",
            help="Record GPU activity by CUPTI, of which a process has one user: on; yield leaves"
            " it to torch.profiler or Nsight Systems; off.",
        ),
    ] = CuptiName.ON,
    cuda_graphs: Annotated[
        GraphsName,
        typer.Option(
            "--cuda-graphs",
            envvar="RLSCOPE_CUDA_GRAPHS",
            help="A CUDA graph is one GPU activity (graph), or each node is one (node: expensive).",
        ),
    ] = GraphsName.GRAPH,
    cuda_memory: Annotated[
        bool,
        typer.Option("--cuda-memory", help="Record what the program allocates and frees on GPUs."),
    ] = False,
    nvml: Annotated[
        bool,
        typer.Option(
            "--nvml/--no-nvml",
            help="Read what the driver says of the GPUs: utilization, clocks, power, memory.",
        ),
    ] = True,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="NAME",
            show_default=False,
            help="With --pid: where programs report their operations that are started later with"
            " the variables of rlscope-trace fleet environment --session NAME.",
        ),
    ] = None,
    lease: Annotated[Path | None, typer.Option("--lease", hidden=True)] = None,
    of_user: Annotated[int | None, typer.Option("--of-user", hidden=True)] = None,
    ray: Annotated[Path | None, typer.Option("--ray", hidden=True)] = None,
    ray_job: Annotated[
        list[str] | None,
        typer.Option(
            "--ray-job",
            metavar="ID",
            show_default=False,
            help="On Ray: keep the processes of this job, and those that belong to none.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            envvar="RLSCOPE_CALIBRATE",
            help="After the target has ended, measure what an event costs on this machine, if that"
            " is not known yet: about 10 s, once; after a boot, check it. See rlscope-trace"
            " calibrate.",
        ),
    ] = True,
    probes: Annotated[
        bool,
        typer.Option(
            "--probes/--no-probes",
            help="After the target has ended, measure how fast this machine is: 50 ms. compare"
            " takes that to compare machines.",
        ),
    ] = True,
) -> None:
    """Trace running processes (--pid), or launch a program and trace it from its start (--).

    Child processes and threads are traced too. Ctrl-C stops and saves. The exit code is 0, with
    --strict 3 if anything was lost; in launch mode it is the program's own.
    """
    if bool(command) == bool(pid):
        raise UsageError(
            "nothing to trace" if not command else "both --pid and a command to launch",
            hint="rlscope-trace --pid PID, or rlscope-trace -- python train.py",
        )
    if inject and not pid:
        raise UsageError(
            "--inject is for running processes (--pid)", hint="a launched program needs none"
        )
    if session is not None and not pid:
        raise UsageError(
            "--session is for running processes (--pid)",
            hint="a launched program needs none",
        )
    if phases is not None and (pid or not auto):
        raise UsageError(
            "--phases is for programs that are launched, with phases looked for",
            hint="rlscope-trace --phases FILE -- python train.py",
        )
    if jax_profile is not None and (pid or not auto or nvtx == shims.NVTX_OFF):
        raise UsageError(
            "--jax-profile is for programs that are launched, with phases looked for",
            hint="rlscope-trace --jax-profile 30:2 -- python train.py",
        )
    modules = nvtx if nvtx == shims.NVTX_OFF else shims.parse_modules(nvtx)
    probe_settings = ProbeSettings(
        transitions.value, tuple(simulator or ()), tuple(backend or ()),
        default_sample_hz() if sample_hz is None else sample_hz, gil.value, probe_budget / 100,
        cuda_calls.value, messages_of.value,
    )  # fmt: skip
    check_patterns(probe_settings)
    settings = Settings(
        output, force, duration, loader, capture, ring_mib, strict, progress, modules, auto,
        inject, probe_settings, calibrate, nvml,
        gpu_settings(cupti, cuda_graphs, memory=cuda_memory), parse_mode(mode),
        "" if phases is None else read_rows(phases, invoking_identity()),
        None if jax_profile is None else parse_window(jax_profile), probes=probes,
        last_s=None if last is None else last_seconds(last),
        session=None if session is None else shims.checked_session(session),
        lease=None if lease is None else Lease(lease),
        of_user=of_user,
        ray=RaySettings(ray, checked_jobs(ray_job or ())),
    )  # fmt: skip
    code = _attach(pid, settings) if pid else _launch(command or [], settings)
    raise typer.Exit(code)


def _attach(pids: list[str], settings: Settings) -> int:
    targets = opened(pids, settings)
    facts: dict[str, object] = {"mode": "attach", "target_pids": [found.pid for found in targets]}
    recording = Recording(settings, facts, invoking_identity())
    with watch.signals_held():
        threads = recording.start(targets, launched=False)
        if not threads and target.alive(targets):
            recording.discard()
            raise TracerError(
                "the OS kernel shows tracing programs no thread of"
                f" {', '.join(str(found.pid) for found in targets)}",
                hint="rlscope-trace doctor; some systems hide their own processes",
            )
        names = ", ".join(f"{found.pid} ({found.comm})" for found in targets)
        messages.say(f"tracing pid {names}: {threads} threads; Ctrl-C stops and saves")
        recording.begin_operations(targets)
        deadline_s = recording.deadline_s()
        reason = watch.watch_targets(
            targets, deadline_s=deadline_s, tick=recording.tick, tick_s=recording.tick_s,
            lease=settings.lease,
        )  # fmt: skip
        recording.stop(reason)
    return _exit_code(0, recording.save(), settings)


def _launch(command: list[str], settings: Settings) -> int:
    signals = SignalSetup.capture()
    identity = invoking_identity()
    recording = Recording(settings, {"mode": "launch", "command": command}, identity)
    with watch.signals_held():
        # First of all: a fork is safest while this process has no other thread.
        environment = recording.environment(command, invoking_environment(identity), identity)
        launched = launch(command, identity=identity, environment=environment, signals=signals)
        try:
            recording.start([launched], launched=True)
            recording.begin_operations()
            launched.release()
        except BaseException:
            launched.abandon()
            recording.discard()
            raise
        deadline_s = recording.deadline_s()
        reason = watch.watch_program(
            launched, deadline_s=deadline_s, tick=recording.tick, tick_s=recording.tick_s
        )
        if refused := launched.refusal():
            messages.failure(refused)
        is_complete = _stopped(recording, reason)
        code = launched.poll()
        if code is None:
            # --duration is over: save at once, with signals still held for the program.
            saved = _saved(recording) if is_complete else None
            watch.watch_program(launched, deadline_s=None, tick=lambda: None)
            code = launched.poll() or 0
            return _exit_code(code, saved, settings)
    return _exit_code(code, _saved(recording) if is_complete else None, settings)


def _stopped(recording: Recording, reason: str) -> bool:
    """Stop recording; where that fails say why, as of what cannot be saved."""
    try:
        recording.stop(reason)
    except TracerError as failure:
        messages.failure(failure)
        return False
    return True


def _saved(recording: Recording) -> TraceReport | None:
    """Save; say why that failed: the exit code is the program's own, as if we were not there."""
    try:
        return recording.save()
    except TracerError as failure:
        messages.failure(failure)
        return None


def _exit_code(code: int, saved: TraceReport | None, settings: Settings) -> int:
    """Return the target's code, or the one that says that something was lost."""
    if not settings.strict or code != 0:
        return code
    if saved is None:
        return TracerError.exit_code
    return _SAVED_WITH_LOSSES if saved.losses else code
