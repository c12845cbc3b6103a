"""Turns a spool into a trace database: decode, sort, store, verify, then delete the spool."""

import contextlib
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from rlscope_trace.errors import OutputExistsError, SpoolError, TracerError, VerificationError
from rlscope_trace.store.database_file import (
    Complete,
    ReportProgress,
    is_interrupt,
    partial_of,
    publish,
    reason_of,
    refuse_existing,
    remove_partial,
)
from rlscope_trace.store.decoding import Decoding
from rlscope_trace.store.spool import Spool
from rlscope_trace.store.stats import TraceStat


@dataclass(frozen=True, slots=True)
class FinaliseReport:
    """What finalise wrote."""

    output: Path
    rows: dict[str, int]
    """Rows by table."""
    records: int
    """Records read from the spool."""
    losses: tuple[TraceStat, ...]
    file_bytes: int
    duration_s: float


def finalise(
    spool: Spool,
    output: Path,
    *,
    overwrite: bool,
    complete: Complete,
    progress: ReportProgress,
) -> FinaliseReport:
    """Write the trace database of a spool, and delete the spool once the database is verified.

    complete(con) adds what is derived, before the file is closed and verified. progress(step, done,
    total) is called about every 64 MiB or half a million rows. On any failure, Ctrl-C included,
    the output is left alone, the spool stays, and the error says how to try again.
    """
    started = time.monotonic()
    refuse_existing(output, overwrite=overwrite)
    with _undone_on_failure(spool, output):
        decoding = Decoding(spool, output, progress)
        written = decoding.write(partial_of(output), complete)
        file_bytes = publish(output, overwrite=overwrite)
    # The trace is safe: a spool that cannot be deleted is no failure.
    with contextlib.suppress(OSError):
        spool.remove()
    return FinaliseReport(
        output=output,
        rows=written.rows,
        records=written.records,
        losses=tuple(written.losses),
        file_bytes=file_bytes,
        duration_s=time.monotonic() - started,
    )


def recover_hint(spool: Spool) -> str:
    """Return the command that tries once more, somewhere else."""
    return f"rlscope-trace recover {shlex.quote(str(spool.directory))} -o SOMEWHERE_ELSE.duckdb"


@contextlib.contextmanager
def _undone_on_failure(spool: Spool, output: Path) -> Iterator[None]:
    """Remove the partial file at any failure, and name a way to try again."""
    hint = recover_hint(spool)
    try:
        remove_partial(output)
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_partial(output)
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
