"""By which names `import nsys` opens files: SQLite opens by name, and only nsys reads reports."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.own_name import name_of_ours
from rlscope_analysis.spill import spill_directory
from rlscope_trace.cli.forked import in_a_fork
from rlscope_trace.errors import TracerError
from rlscope_trace.ingest.importers.import_writer import refuse_existing
from rlscope_trace.ingest.importers.input_paths import check_paths
from rlscope_trace.ingest.importers.nsys_report import export_report, is_report
from rlscope_trace.ingest.importers.nsys_sqlite import unreadable
from rlscope_trace.rights import leave_no_rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def names_for_sqlite(
    files: Sequence[Path], output: Path, *, overwrite: bool
) -> Iterator[dict[Path, Path]]:
    """Yield the name to open each file by; a report is exported first.

    For before the right to start programs is given up. Raises ImportFileError, OutputExistsError,
    TraceError.
    """
    # Before nsys, or a copy, takes its minutes.
    check_paths(files, output)
    refuse_existing(output, overwrite=overwrite)
    with ExitStack() as stack:
        yield {path: _name_of(path, stack) for path in files}


def _name_of(path: Path, stack: ExitStack) -> Path:
    try:
        if is_report(path):
            folder = Path(stack.enter_context(_folder()))
            # It needs none of our rights, and is whatever PATH says.
            return in_a_fork(partial(_exported, path, folder))
        return stack.enter_context(name_of_ours(path, beside=()))
    except OSError as error:
        raise unreadable(path, error) from None


def _folder() -> tempfile.TemporaryDirectory[str]:
    scratch = spill_directory()
    if scratch is None:
        raise TracerError(
            "there is no folder for temporary files that can be written",
            hint="name one: TMPDIR=FOLDER rlscope-trace import nsys ...",
        )
    return tempfile.TemporaryDirectory(dir=scratch, prefix="nsys-")


def _exported(report: Path, folder: Path) -> Path:
    leave_no_rights()
    return export_report(report, folder)
