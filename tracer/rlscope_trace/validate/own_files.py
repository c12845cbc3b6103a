"""Files of its own for the untraced run beside a traced one: those whose functions are probed.

A probe belongs to a file and stops every process that runs it; who is not traced pays for the trap
all the same. So the untraced run gets copies, which it sees in the places of the files.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError
from rlscope_trace.preflight.capabilities import effective_capabilities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_trace.privileges import Identity

_SCRIPT = Path(__file__).with_name("mounted.py")


def may_mount() -> bool:
    """Tell whether we may give a run files of its own."""
    return "CAP_SYS_ADMIN" in effective_capabilities(Path("/proc/self/status").read_text())


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The copies there are, by the place where the program looks for them."""

    directory: Path
    """For the copies; made when there is one. Whoever runs the program may pass."""
    copies: dict[str, Path] = field(default_factory=dict)

    def add(self, files: Iterable[str]) -> None:
        """Copy those that are not there yet; a file that is gone has no copy.

        Raises TracerError where there is no room.
        """
        for file in files:
            if file in self.copies or not Path(file).is_file():
                continue
            copy = self.directory / str(len(self.copies))
            try:
                self.directory.mkdir(mode=0o755, exist_ok=True)
                shutil.copy(file, copy)
            except OSError as error:
                raise TracerError(
                    f"cannot copy {file}, whose functions are probed, for the untraced runs:"
                    f" {error.strerror}",
                    hint="free space in the folder for temporary files, or set TMPDIR",
                ) from error
            self.copies[file] = copy

    def command(self, command: list[str], identity: Identity | None) -> list[str]:
        """Return the command so that it sees the copies; to be started by root.

        identity: whom it runs as in the end; None: root.
        """
        places = {
            "files": [[str(copy), place] for place, copy in self.copies.items()],
            "user": identity and [identity.uid, identity.gid, list(identity.groups)],
        }
        return [sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(places), *command]
