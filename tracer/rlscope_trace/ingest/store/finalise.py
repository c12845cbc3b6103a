"""Turns a spool into a trace database: decode, sort, store, verify, then delete the spool."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import duckdb

from rlscope_trace.errors import (
    OutputExistsError,
    SpoolError,
    TracerError,
    VerificationError,
    reason_of,
)
from rlscope_trace.ingest.store.decoding import Decoding
from rlscope_trace.ingest.writer.database_file import ReportProgress, is_interrupt
from rlscope_trace.ingest.writer.trace_writer import TraceWriter, write_trace
from rlscope_trace.outputs.place import PRIVATE_MODE
from rlscope_trace.spool.directory import Spool
from rlscope_trace.texts import shell_line


@contextlib.contextmanager
def finalise(
    spool: Spool,
    output: Path,
    *,
    overwrite: bool,
    progress: ReportProgress,
    mode: int = PRIVATE_MODE,
) -> Iterator[TraceWriter]:
    """Yield the trace of a spool, for the caller to add what is derived: see write_trace().

    When the block ends the trace is verified and published, and the spool is deleted.
    progress(step, done, total) is called about every 64 MiB or half a million rows. On any failure,
    also one in the block, Ctrl-C included, the output is left alone, the spool stays, and the error
    says how to try again.
    """
    with _explained(spool, output), write_trace(
        output, overwrite=overwrite, progress=progress, mode=mode
    ) as trace:  # fmt: skip
        with spool.whole(trace.folder) as whole:
            Decoding(whole, trace).write()
        yield trace
    # The trace is safe: a spool that cannot be deleted is no failure.
    with contextlib.suppress(OSError):
        spool.remove()


def recover_hint(spool: Spool) -> str:
    """Return the command that tries once more, somewhere else."""
    return f"rlscope-trace recover {shell_line([str(spool.shown)])} -o SOMEWHERE_ELSE.duckdb"


@contextlib.contextmanager
def _explained(spool: Spool, output: Path) -> Iterator[None]:
    """Put any failure into words, and name a way to try again."""
    hint = recover_hint(spool)
    try:
        yield
    except BaseException as error:
        if isinstance(error, OutputExistsError):
            raise
        if isinstance(error, VerificationError):
            raise VerificationError(f"{output} was not written: {error}", hint=hint) from error
        if isinstance(error, TracerError):
            error.hint = error.hint or hint
            raise
        if is_interrupt(error):
            raise SpoolError(f"interrupted before {output} was complete", hint=hint) from error
        if isinstance(error, (duckdb.Error, OSError, MemoryError, RuntimeError)):
            reason = reason_of(error)
            raise SpoolError(f"cannot write {output}: {reason}", hint=hint) from error
        raise
