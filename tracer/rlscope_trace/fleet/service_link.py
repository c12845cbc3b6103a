"""Asks the recorder that runs as root on this machine: `rlscope_trace.fleet.service`."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace.errors import OutputExistsError, TracerError
from rlscope_trace.fleet.recorder import Left, Recording
from rlscope_trace.fleet.service import DEFAULT_SOCKET, MOST_LINE_BYTES, TAKEN

if TYPE_CHECKING:
    from collections.abc import Iterable

SOCKET_VARIABLE = "RLSCOPE_FLEET_SOCKET"
"""Names the socket of the service where it is not the usual one."""
_FORCE = "--force"
_CONNECT_S, _ANSWER_S = 5.0, 60.0


class UnreachableError(TracerError):
    """The service does not answer."""


@dataclass(frozen=True, slots=True)
class Served:
    """A recording that the service keeps."""

    ticket: str
    output: str
    """Where its trace is to be."""
    lease_s: float
    may_replace: bool


def socket_path() -> Path:
    """Return where the service of this machine is asked."""
    return Path(os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET)


def facts() -> dict[str, Any] | None:
    """Return what the service says of itself; None: there is none. Raises TracerError."""
    if not socket_path().exists():
        return None
    return _asked({"do": "facts"})


def start(order: Recording) -> Served:
    """Let a recorder be started. Raises TracerError, OSError."""
    output = Path(order.output)
    may_replace = _FORCE in order.options
    if output.exists() and not may_replace:
        raise OutputExistsError(f"{output} exists", hint="--force to replace it, or -o OTHER")
    question = {
        "do": "start", "session": order.session, "lease_s": order.lease_s,
        "pids": list(order.pids), "options": list(order.options),
    }  # fmt: skip
    return Served(_asked(question)["ticket"], order.output, order.lease_s, may_replace)


def go_on(served: Served, pids: Iterable[int] = ()) -> bool:
    """Say that the recording is to go on, and tell whether it does. Raises TracerError."""
    try:
        return bool(_asked({"do": "beat", "ticket": served.ticket, "pids": list(pids)})["runs"])
    except UnreachableError:
        # The service starts again, perhaps: the recorder lives until its lease ends.
        return True


def end(served: Served, identity: str | None, patience_s: float) -> Left:
    """Let the recorder save, and write what it hands over where the trace is to be.

    Raises TracerError, OSError: the trace is kept by the service then.
    """
    text = (identity or "").encode()
    question = {"do": "stop", "ticket": served.ticket, "identity_bytes": len(text)}
    with closing(_connected()) as connection:
        answer, descriptors = _answer(connection, question, patience_s, text)
        try:
            if descriptors:
                _write(descriptors[0], Path(served.output), may_replace=served.may_replace)
                connection.sendall(TAKEN)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    return Left(answer["words"], answer["was_recovered"])


def _write(descriptor: int, output: Path, *, may_replace: bool) -> None:
    """Write an open trace to a file, which is there as a whole or not at all."""
    part, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    try:
        with os.fdopen(part, "wb") as target, open(descriptor, "rb", closefd=False) as source:
            shutil.copyfileobj(source, target, 1 << 20)
        if may_replace:
            os.replace(name, output)  # noqa: PTH105 - as link below
        else:
            # Unlike a rename it fails where something has come there meanwhile.
            os.link(name, output)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108


def _asked(question: dict[str, Any]) -> dict[str, Any]:
    with closing(_connected()) as connection:
        return _answer(connection, question, _ANSWER_S)[0]


def _connected() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_CONNECT_S)
    try:
        connection.connect(str(socket_path()))
    except OSError as error:
        connection.close()
        raise _no_answer(error) from error
    return connection


def _no_answer(error: OSError) -> UnreachableError:
    return UnreachableError(
        f"the recorder of this machine does not answer at {socket_path()}: {error}",
        hint="rlscope-trace fleet serve, as root on that node",
    )


def _answer(
    connection: socket.socket, question: dict[str, Any], patience_s: float, more: bytes = b""
) -> tuple[dict[str, Any], list[int]]:
    """Ask, and return the answer and the files that came with it. Raises TracerError."""
    text, descriptors = bytearray(), []
    connection.settimeout(patience_s)
    try:
        # Who is refused is so before all was read.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(json.dumps(question).encode() + b"\n" + more)
        while not text.endswith(b"\n"):
            part, came, _, _ = socket.recv_fds(connection, 1 << 16, 1)
            descriptors += came
            text += part
            if not part or len(text) > MOST_LINE_BYTES:
                raise TracerError("the recorder of this machine gave no answer")
        answer = json.loads(text)
        if answer.get("error"):
            raise TracerError(answer["error"], hint=answer.get("hint"))
    except BaseException as error:
        for descriptor in descriptors:
            os.close(descriptor)
        if isinstance(error, OSError):
            raise _no_answer(error) from error
        raise
    return answer, descriptors
