"""The command line. Imports every other room, and is imported by nobody."""

from __future__ import annotations

import errno
import importlib
import keyword
import os
import resource
import signal
import sys
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_trace import __version__, address_space
from rlscope_trace.cli import messages
from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.installed import is_recorder, require_recorder
from rlscope_trace.outputs.trusted import is_own_place
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_reader, own_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# In the order of --help, with what is said there. A command is imported when it is called: `record`
# must not wait for the libraries of `summarize` before its probes are live, nor --help and the
# completion of names for any.
_COMMANDS = {
    "record": "Trace running processes (--pid), or launch a program.",
    "top": "Show what a running training does, live.",
    "recover": "Make a trace of the spool of a recorder that was killed.",
    "import": "Make a trace of the files of another profiler.",
    "export": "Write a trace as a timeline for other viewers.",
    "summarize": "Show what limits a training, and where its time went.",
    "explain": "Show the critical path of one iteration.",
    "whatif": "Predict how long an iteration would take with something changed.",
    "balance": "Tell whether CPUs, one thread or the GPU limit the rate of steps.",
    "report": "Write a page to look at: one file for any browser.",
    "view": "Show the whole trace as a timeline, in a browser.",
    "compare": "Tell whether it got better or worse, and where.",
    "gate": "Fail where something got worse by more than is allowed.",
    "sql": "Ask a trace anything in SQL.",
    "fleet": "Answer for many traces of one job together.",
    "validate": "Hold corrected times to untraced runs of a program.",
    "calibrate": "Measure what each recorded event costs.",
    "doctor": "Check everything that tracing needs.",
}
# They give up rights of root by themselves, when they have done what needs them; so do `gate` and
# `balance` where they run a program. All others begin with that, whatever they are going to read.
_RECORDING = frozenset({"record", "top", "validate", "calibrate", "doctor"})
# Without what records they have nothing to say but that; those two only where they run a program.
_NEED_RECORDER = frozenset({"record", "top", "validate", "calibrate", "doctor"})
_RUNTIME_FAILURE = 1
# What is no fault of ours, of a disk or of whoever reads stdout.
_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE})
# These load DuckDB and numpy.
_WITH_DATABASE = (
    "recover", "import", "export", "summarize", "explain", "whatif", "report", "view",
    "balance", "compare", "gate", "sql", "fleet",
)  # fmt: skip


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"rlscope-trace {__version__}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Show where the time of a reinforcement-learning program goes, with eBPF.

    rlscope-trace --pid PID and rlscope-trace -- COMMAND are short for rlscope-trace record.
    """


def make_app(names: Sequence[str] = ()) -> typer.Typer:
    """Return the command line with the named commands; with none, what --help says of each."""
    app = typer.Typer(
        name="rlscope-trace",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in () if names else _COMMANDS:
        app.command(name, short_help=_COMMANDS[name])(_not_loaded)
    for name in names:
        module_name = f"{name}_" if keyword.iskeyword(name) else name
        module = importlib.import_module(f"rlscope_trace.cli.{module_name}")
        if isinstance(group := getattr(module, "app", None), typer.Typer):
            # A command with commands of its own.
            app.add_typer(group, name=name)
            continue
        # Options end where the traced command begins, also without a "--" before it.
        settings = {"allow_interspersed_args": name not in ("record", "top")}
        settings |= getattr(module, "CONTEXT_SETTINGS", {})
        kind = getattr(module, "CommandClass", None)
        app.command(name, cls=kind, context_settings=settings)(getattr(module, name))
    return app


def _not_loaded() -> None:
    raise AssertionError("a command is loaded by its name")


def _named(words: Sequence[str]) -> list[str]:
    """Return the command that is called, or completed; nothing where it has no name yet."""
    # What the shells of typer hand over: bash, and all others.
    for variable in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"):
        if _is_completing() and variable in os.environ:
            words = os.environ[variable].split()[1:]
    return [name for name in _COMMANDS if words[:1] == [name]]


def _is_completing() -> bool:
    return any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ)


def expand_arguments(arguments: Sequence[str]) -> list[str]:
    """Put `record` before options that are those of record: it is the command without a name."""
    own = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
    if arguments and arguments[0].startswith("-") and arguments[0] not in own:
        return ["record", *arguments]
    return list(arguments)


def _open_standard_streams() -> None:
    """Put /dev/null where one of the three was closed: else the next file opened would be it."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                os.fstat(descriptor)
                continue
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the only place that turns errors into words and a code."""
    _open_standard_streams()
    messages.take_over()
    words = expand_arguments(sys.argv[1:] if arguments is None else arguments)
    named = _named(words)
    if named and named[0] in _WITH_DATABASE and _lacks_address_space():
        sys.exit(_RUNTIME_FAILURE)
    try:
        if _NEED_RECORDER.intersection(named):
            require_recorder()
        if arguments is None:
            own_process()
        if os.geteuid() == 0 and not _records(named, words):
            become_reader(invoking_identity())
        with _completion_in_home() if "--install-completion" in words else nullcontext():
            code = make_app(named)(
                words or ["--help"], prog_name="rlscope-trace", standalone_mode=False
            )
    except KeyboardInterrupt:
        messages.error("interrupted")
        sys.exit(128 + signal.SIGINT)
    except Exception as failure:  # noqa: BLE001 - _tell raises again what is no message
        sys.exit(_tell(failure, named))
    sys.exit(code)


def _records(named: Sequence[str], words: Sequence[str]) -> bool:
    """Tell whether a command needs more than to read."""
    runs_program = named in (["gate"], ["balance"], ["fleet"]) and "--" in words
    serves = list(words[:2]) == ["fleet", "serve"]
    return bool(_RECORDING.intersection(named)) or runs_program or serves


@contextmanager
def _completion_in_home() -> Iterator[None]:
    """Raise TracerError where there is no home, or root would write into one of another user."""
    try:
        home = Path.home()
    except RuntimeError:
        raise TracerError(
            "no home is known to install it in",
            hint="HOME=FOLDER rlscope-trace --install-completion",
        ) from None
    try:
        is_own = os.geteuid() != 0 or is_own_place(home)
    except OSError:
        is_own = False
    if not is_own:
        raise TracerError(
            f"{home} is not root's, and its owner could lead root anywhere from there",
            hint="rlscope-trace --install-completion as the user whose shell it is",
        )
    try:
        yield
    except OSError as error:
        raise TracerError(
            f"cannot write {error.filename or home}: {reason_of(error)}",
            hint="rlscope-trace --show-completion prints what would be installed",
        ) from error


def _lacks_address_space() -> bool:
    """Say so where the libraries that read a trace would crash."""
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if stack != resource.RLIM_INFINITY and stack < address_space.LEAST_STACK_BYTES:
        messages.error(
            f"a trace takes stacks of {address_space.LEAST_STACK_BYTES >> 10} KiB,"
            f" and {stack >> 10} KiB are allowed",
            "ulimit -s 8192",
        )
        return True
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY or limit >= address_space.LEAST_BYTES:
        return False
    messages.error(
        f"a trace takes {address_space.LEAST_BYTES / 2**30:g} GiB of address space,"
        f" and {limit >> 20} MiB are allowed",
        "ulimit -v unlimited",
    )
    return True


def _tell(failure: Exception, named: Sequence[str]) -> int:
    """Put an error into words and return its exit code; raise it again if it is a bug of ours."""
    code = int(getattr(failure, "exit_code", _RUNTIME_FAILURE))
    if hasattr(failure, "hint"):
        # TracerError, and TraceError of the other package.
        messages.failure(failure)
    elif hasattr(failure, "format_message"):
        # What typer says of a command line it does not understand.
        hint = " ".join(["rlscope-trace", *named, "--help"])
        messages.error(failure.format_message().rstrip("."), hint)
    elif isinstance(failure, ImportError) and is_recorder(failure.path):
        # Imported where it is needed: what reads traces does without.
        from rlscope_trace.record.preflight import explain_failure

        messages.failure(explain_failure(str(failure), argv=sys.argv[1:]))
    elif isinstance(failure, FileNotFoundError) and failure.filename is None:
        # Of files the name is known: it was os.getcwd().
        messages.error("the current folder is not there any more", "cd to one that is")
    elif isinstance(failure, OSError) and failure.errno in _TOO_MANY_FILES:
        messages.error(f"no file can be opened: {failure.strerror}", "ulimit -n 1024")
    elif isinstance(failure, OSError) and failure.errno in _CANNOT_WRITE:
        # Of stdout there is one message, whatever was being written.
        messages.error(f"cannot write: {failure.strerror}")
    else:
        raise failure
    return code
