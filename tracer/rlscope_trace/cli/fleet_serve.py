"""`rlscope-trace fleet serve`: records for programs that have no right to."""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import sys
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_trace.cli import messages
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.fleet.held import Held
from rlscope_trace.fleet.service import DEFAULT_FOLDER, DEFAULT_SOCKET, Service, listen
from rlscope_trace.rights import become_recorder

if TYPE_CHECKING:
    import types

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PRIVATE = 0o700


class Unit(str, Enum):
    """Who starts the recorder on each node."""

    SYSTEMD = "systemd"
    KUBERAY = "kuberay"
    DAEMONSET = "daemonset"


_FILES = {
    Unit.SYSTEMD: "systemd.service",
    Unit.KUBERAY: "kuberay.yaml",
    Unit.DAEMONSET: "daemonset.yaml",
}


def serve(
    users: Annotated[
        list[str],
        typer.Option(
            "--user", metavar="USER", show_default=False,
            help="Who may record its processes here: the user of the raylet, by name or number.",
        ),
    ],
    socket: Annotated[
        Path, typer.Option("--socket", help="Where keepers ask; theirs: RLSCOPE_FLEET_SOCKET.")
    ] = DEFAULT_SOCKET,
    folder: Annotated[
        Path, typer.Option("--folder", help="Where traces are written until they are fetched.")
    ] = DEFAULT_FOLDER,
    user_gib: Annotated[
        int,
        typer.Option(
            "--user-gib", min=1, metavar="GIB",
            help="How much room what is recorded for a user may take here, until it is fetched.",
        ),
    ] = 20,
    unit: Annotated[
        Unit | None,
        typer.Option(
            "--print", show_default=False,
            help="Print the file that starts this on each node, and end.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Record, as root, for Ray workers that have no right to: one on each node.

    fleet record and launch ask it by itself. Each user gets its own processes only. Ctrl-C ends it;
    recordings that run save by themselves.
    """
    if unit is not None:
        write_stdout([unit_text(unit, users)])
        return
    allowed = {_uid_of(user) for user in users}
    if os.geteuid() != 0:
        raise TracerError("fleet serve needs root", hint="sudo rlscope-trace fleet serve ...")
    # Under sudo it is root itself all the same: what it writes is for nobody but those who ask.
    for name in ("SUDO_UID", "SUDO_GID", "SUDO_USER"):
        os.environ.pop(name, None)
    _make_private(folder)
    listener = listen(socket)
    become_recorder(None)
    for number in _ENDING:
        signal.signal(number, _end)
    try:
        messages.say(f"recording for {', '.join(users)} at {socket}; Ctrl-C ends it")
        Service(allowed, Held(folder, user_gib << 30, messages.say)).run(listener)
    finally:
        listener.close()
        socket.unlink(missing_ok=True)


def unit_text(unit: Unit, users: list[str]) -> str:
    """Return the file that starts this command on each node."""
    # Of this installation, however this command was called.
    command = str(Path(sys.executable).with_name("rlscope-trace"))
    words = [word for user in users for word in ("--user", user)]
    text = resources.files("rlscope_trace.fleet").joinpath("units", _FILES[unit]).read_text()
    for mark, value in (
        ("@COMMAND@", shlex.quote(command)),
        ("@USERS@", shlex.join(words)),
        ("@USERWORDS@", ", ".join(f'"{word}"' for word in words)),
    ):
        text = text.replace(mark, value)
    return text


def _end(_number: int, _frame: types.FrameType | None) -> None:
    raise typer.Exit(0)


def _uid_of(user: str) -> int:
    if user.isdecimal() and user.isascii() and int(user) < 1 << 32:
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError) as error:
        raise UsageError(f"--user {user}: there is no such user here", hint="id -u NAME") from error


def _make_private(folder: Path) -> None:
    """Make the folder for traces: of root, and of nobody else. Raises TracerError."""
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise TracerError(
            f"cannot make {folder}: {error.strerror}", hint="--folder OTHER"
        ) from error
    if not folder.is_dir() or status.st_uid != 0 or status.st_mode & 0o022 or folder.is_symlink():
        raise TracerError(
            f"{folder} can be written by others than root",
            hint=f"chown root:root {folder}; chmod 700 {folder}",
        )
