"""By which names `import nsys` opens files: SQLite opens by name, and only nsys reads reports."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.own_name import name_of_ours
from rlscope_analysis.spill import spill_directory
from rlscope_trace.ingest.importers.import_writer import refuse_existing
from rlscope_trace.ingest.importers.nsys_report import export_report, is_report
from rlscope_trace.ingest.importers.nsys_sqlite import unreadable

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
    with ExitStack() as stack:
        if any(map(is_report, files)):
            # Before nsys takes its minutes.
            refuse_existing(output, overwrite=overwrite)
        yield {path: _name_of(path, stack) for path in files}


def _name_of(path: Path, stack: ExitStack) -> Path:
    if is_report(path):
        folder = tempfile.TemporaryDirectory(dir=spill_directory(), prefix="nsys-")
        return export_report(path, Path(stack.enter_context(folder)))
    try:
        return stack.enter_context(name_of_ours(path, beside=()))
    except OSError as error:
        raise unreadable(path, error) from None
