"""Turns reports of Nsight Systems into SQLite files, with its own command."""

import shutil
import subprocess
from pathlib import Path

from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.nsys_sqlite import EXPORT_COMMAND
from rlscope_trace.texts import shell_line

# .qdrep is what it was called until 2021.
_REPORT_SUFFIXES = frozenset({".nsys-rep", ".qdrep"})


def is_report(path: Path) -> bool:
    """Tell whether a file is a report, by its name: nobody but nsys knows what is in it."""
    return path.suffix in _REPORT_SUFFIXES


def export_report(report: Path, directory: Path) -> Path:
    """Export a report into a directory; returns the SQLite file.

    Raises ImportFileError if nsys is not there, or cannot do it.
    """
    if not report.is_file():
        raise ImportFileError(f"{report} does not exist", hint="check the name")
    command = EXPORT_COMMAND.replace("REPORT.nsys-rep", shell_line([str(report)]))
    nsys = shutil.which("nsys")
    if nsys is None:
        raise ImportFileError(
            f"{report} is a report that only nsys can read, and nsys is not on PATH",
            hint=f"where Nsight Systems is installed: {command}; then import the .sqlite file",
        )
    output = directory / f"{report.stem}.sqlite"
    done = subprocess.run(
        [nsys, "export", "--type", "sqlite", "--output", str(output), str(report)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode or not output.is_file():
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"it exited with {done.returncode}"
        raise ImportFileError(f"nsys cannot export {report}: {reason}", hint=f"try: {command}")
    return output
