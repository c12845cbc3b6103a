"""Folders for what a command has its recorder and the traced program write, and reads again."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import OutputExistsError, TracerError
from rlscope_trace.outputs.trusted import closing, is_way_ours_alone, open_folder
from rlscope_trace.privileges import acting_as, chown_to_invoker, invoking_identity

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of root, and sticky.
_SAFE = "/var/tmp"


@contextmanager
def folders_of_invoker(purpose: str, *names: str) -> Iterator[list[Path]]:
    """Give new folders of the user that called sudo; with the block all that is in them goes.

    They lie in one of ours, which nobody can put another in the place of.
    """
    base = Path(tempfile.mkdtemp(prefix=f"rlscope-{purpose}-", dir=_safe_folder()))
    try:
        # That user passes through, and writes into a folder of its own only.
        base.chmod(0o711)
        folders = [base / name for name in names]
        for folder in folders:
            folder.mkdir()
            chown_to_invoker(folder, invoking_identity())
        yield folders
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def new_folder(keep: Path, *, option: str = "--keep") -> Iterator[Path]:
    """Make a folder for what is kept; if nothing is in it at the end, it is removed.

    Raises OutputExistsError, and TracerError where it cannot be made.
    """
    try:
        with acting_as(invoking_identity()):
            keep.mkdir()
    except FileExistsError:
        raise OutputExistsError(f"{keep} exists", hint=f"{option} names a new folder") from None
    except OSError as error:
        raise TracerError(f"cannot make {keep}: {error.strerror}") from error
    try:
        yield keep.absolute()
    finally:
        # Then it is not in the way of the next try.
        with suppress(OSError), acting_as(invoking_identity()):
            keep.rmdir()


def _safe_folder() -> str:
    """Return the folder for what is temporary, unless another user could swap what is in it."""
    named = tempfile.gettempdir()
    try:
        with closing(open_folder(Path(named))) as folder:
            return named if is_way_ours_alone(folder) else _SAFE
    except OSError:
        return _SAFE
