"""Turns a spool into a trace database: decode, sort, store, verify, then delete the spool."""

import contextlib
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from rlscope_trace.errors import (
    OutputExistsError,
    SpoolError,
    TracerError,
    VerificationError,
    reason_of,
)
from rlscope_trace.outputs.place import PRIVATE_MODE, open_place
from rlscope_trace.store.database_file import (
    DATABASE_NAME,
    Complete,
    ReportProgress,
    is_interrupt,
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


def finalise(  # noqa: PLR0913 - one parameter per choice
    spool: Spool,
    output: Path,
    *,
    overwrite: bool,
    complete: Complete,
    progress: ReportProgress,
    mode: int = PRIVATE_MODE,
) -> FinaliseReport:
    """Write the trace database of a spool, and delete the spool once the database is verified.

    complete(con) adds what is derived, before the file is closed and verified. progress(step, done,
    total) is called about every 64 MiB or half a million rows. On any failure, Ctrl-C included,
    the output is left alone, the spool stays, and the error says how to try again.
    """
    started = time.monotonic()
    with _explained(spool, output), open_place(output) as place:
        place.refuse_existing(overwrite=overwrite)
        with place.unfinished() as folder:
            written = Decoding(spool, folder.path, progress).write(complete)
            file_bytes = place.publish(folder, DATABASE_NAME, overwrite=overwrite, mode=mode)
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
    return f"rlscope-trace recover {shlex.quote(str(spool.shown))} -o SOMEWHERE_ELSE.duckdb"


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
