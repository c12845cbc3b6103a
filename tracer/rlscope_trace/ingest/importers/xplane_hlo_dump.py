"""Programs of XLA from a folder of dumps, for profiles that do not carry them.

XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto" writes them.
"""

import errno
import os
from pathlib import Path

from rlscope_trace.errors import reason_of
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.protobuf_wire import WireError
from rlscope_trace.ingest.importers.xplane_hlo import Program, Room, read_program
from rlscope_trace.spool.regular_files import open_regular

_SUFFIXES = (".hlo_proto.pb", "after_optimizations.hlo.pb", ".hlo.pb")
_MAX_BYTES = 64 << 20
_MAX_PROGRAMS = 1_000


def read_dump(folder: Path) -> dict[int, Program]:
    """Return the programs after optimisation, by a number of ours. Raises ImportFileError."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - any name is one
        chosen = [name for name in names if name.endswith(_SUFFIXES) and "before_opt" not in name]
        room = Room()
        found = [_read(folder / name, room) for name in chosen[:_MAX_PROGRAMS]]
    except OSError as error:
        raise ImportFileError(
            f"cannot read the dump {folder}: {reason_of(error)}", hint="name its folder with --hlo"
        ) from error
    programs = [program for program in found if program is not None]
    if not programs:
        raise ImportFileError(
            f"{folder} holds no program of XLA (*.hlo.pb)",
            hint='dump them with XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto"',
        )
    # Below zero: no program_id of a profile.
    return {-1 - number: program for number, program in enumerate(programs)}


def _read(path: Path, room: Room) -> Program | None:
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    if len(data) > _MAX_BYTES:
        return None
    try:
        return read_program(data, (0, len(data)), room)
    except WireError as error:
        raise ImportFileError(
            f"{path} is no program of XLA, or is damaged: {error}", hint="dump it once more"
        ) from error
