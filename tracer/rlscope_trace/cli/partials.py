"""Keeps partials of traces beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.fleet.partial_file import partial_path, write_partial
from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.outputs.place import PRIVATE_MODE, open_place

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_analysis.fleet.partial import Partial


class PartialStore:
    """Writes partials, as far as that is possible: without one a trace is read again."""

    def __init__(self) -> None:
        self.failed = 0
        self.refused: str | None = None
        """Why the first one could not be kept; None: all were."""

    def keep(self, trace: Path, partial: Partial, mark: str) -> None:
        """Write the partial of a trace, in the place of one that is there."""
        path = partial_path(trace)
        try:
            with open_place(path) as place:
                place.refuse_existing(overwrite=True)
                with place.unfinished() as folder:
                    write_partial(partial, folder.path / "partial", mark)
                    place.publish(folder, "partial", overwrite=True, mode=PRIVATE_MODE)
        except (OSError, ValueError, TracerError, duckdb.Error) as error:
            why = reason_of(error) if isinstance(error, OSError) else str(error).partition("\n")[0]
            self.refused = self.refused or f"{path}: {why}"
            self.failed += 1
