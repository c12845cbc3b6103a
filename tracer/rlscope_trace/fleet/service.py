"""A recorder for programs without the rights to record: it runs as root, and does what it is asked.

    rlscope-trace fleet serve --user ray         # on each node, by systemd or as a container

A keeper asks by a socket of this machine, one question and one answer per connection:

    {"do": "facts"}
    {"do": "start", "session": ..., "lease_s": ..., "pids": [...], "options": [...]}
    {"do": "beat", "ticket": ..., "pids": [...]}
    {"do": "stop", "ticket": ..., "identity_bytes": N}, and N bytes; the open trace comes along

Nobody who asks is trusted. The OS kernel says who it is: one of the named users, who may name
processes of that user only. No name of a file crosses the socket: traces are written where only
root is, and handed over as an open file. Options are those that name no file.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace import __version__
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet import held, recorder
from rlscope_trace.fleet.connections import serve_each
from rlscope_trace.fleet.held import Held, RefusedError
from rlscope_trace.fleet.namespaces import pids_of_peer
from rlscope_trace.procfs import users_of
from rlscope_trace.record.shims import checked_session

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import BinaryIO

DEFAULT_SOCKET = Path("/run/rlscope-trace/fleet.sock")
DEFAULT_FOLDER = Path("/var/lib/rlscope-trace")
MOST_LINE_BYTES, MOST_IDENTITY_BYTES = 1 << 16, 3 << 20
# Of an identity: each takes 50 to 230 bytes when it is parsed.
_MOST_GROUPS = 200_000
# What is parsed for users, one at a time.
_parsing = threading.Lock()
TAKEN = b"taken\n"

_QUESTION_S, _TAKE_S, _SAVE_S = 10.0, 600.0, 900.0
# Of each user: one may not keep the others out.
_MOST_CONNECTIONS, _MOST_PIDS = 16, 256
_LEASE_S = (5.0, 300.0)
_PEER = struct.Struct("3i")
# None of them names a file, or runs code in a program.
_FLAGS = frozenset(
    ("--auto", "--no-auto", "--nvml", "--no-nvml", "--cuda-memory", "--calibrate", "--no-calibrate",
     "--probes", "--no-probes", "--strict", "--force")
)  # fmt: skip
_VALUED = frozenset(
    ("--ray-job", "--sample-hz", "--gil", "--messages", "--nvtx", "--transitions",
     "--probe-budget", "--cuda-calls", "--cupti", "--cuda-graphs", "--capture")
)  # fmt: skip
# What a question of any shape leads to.
_ODD = (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError)


@dataclass(slots=True)
class Service:
    """Answers the questions of some users."""

    users: Collection[int]
    held: Held

    def run(self, listener: socket.socket) -> None:
        """Answer until the listener is closed."""
        serve_each(listener, _MOST_CONNECTIONS, self._answer, self._owner)

    def _owner(self, connection: socket.socket) -> int | None:
        """Return whose a connection is; a stranger gets the answer to whatever it asks at once."""
        _, uid = _peer(connection)
        if uid in self.users:
            return uid
        hint = f"rlscope-trace fleet serve --user {uid}"
        connection.setblocking(False)
        connection.send(_line({"error": f"user {uid} may not record here", "hint": hint}))
        return None

    def _answer(self, connection: socket.socket) -> None:
        pid, uid = _peer(connection)
        connection.settimeout(_QUESTION_S)
        try:
            with connection.makefile("rb") as file:
                question = _question(file)
                what = question.get("do")
                if what == "stop":
                    self._stop(connection, question, _identity(file, question), pid, uid)
                    return
            answers = {"facts": self._facts, "start": self._start, "beat": self._beat}
            if what not in answers:
                raise RefusedError("no such question")
            answer = answers[what](question, pid, uid)
        except TracerError as error:
            answer = {"error": str(error), "hint": next(iter(error.hints), None)}
        except _ODD as error:
            answer = {"error": f"it cannot be done: {error!r}"[:300], "hint": None}
        connection.sendall(_line(answer))

    def _facts(self, _question: dict[str, Any], _pid: int, _uid: int) -> dict[str, Any]:
        refusal, remedy = recorder.refusal()
        return {"version": __version__, "refusal": refusal, "remedy": remedy}

    def _start(self, question: dict[str, Any], pid: int, uid: int) -> dict[str, Any]:
        options = checked_options(question["options"])
        session = checked_session(str(question["session"]))
        lease_s = min(max(float(question["lease_s"]), _LEASE_S[0]), _LEASE_S[1])
        seen = pids_of_peer(pid)
        pids = tuple(_checked_pids(question["pids"], seen, uid))
        if not pids:
            raise RefusedError("no process to record")
        folder = self.held.reserve(uid)
        started = None
        try:
            output = str(folder / held.TRACE)
            order = recorder.Recording(output, session, lease_s, pids, options, of_user=uid)
            started = recorder.start(order, folder)
            held.known_pids(folder, seen or {})
            held.keep(started)
        except BaseException:
            if started is not None:
                recorder.abandon(started)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.held.say(f"user {uid}: recording {', '.join(map(str, pids))} as {folder.name}")
        return {"ticket": folder.name}

    def _beat(self, question: dict[str, Any], pid: int, uid: int) -> dict[str, Any]:
        started = self.held.find(uid, question["ticket"])
        seen = pids_of_peer(pid)
        # A driver may have ended, or its pid be another's by now: that is no reason to stop.
        pids = _checked_pids(question["pids"], seen, uid, must_be_theirs=False)
        if seen is not None:
            held.known_pids(Path(started.folder), seen)
        if self.held.is_full(uid) and recorder.runs(started):
            self.held.say(f"user {uid}: too much room is taken: {question['ticket']} is ended")
            recorder.stop(started)
        return {"runs": recorder.go_on(started, pids)}

    def _stop(
        self,
        connection: socket.socket,
        question: dict[str, Any],
        identity: str | None,
        pid: int,
        uid: int,
    ) -> None:
        ticket, started = question["ticket"], self.held.find(uid, question["ticket"])
        left = recorder.end(started, _identity_here(identity, started, pid), _SAVE_S)
        answer = {"words": left.words[-4000:], "was_recovered": left.was_recovered}
        try:
            trace = os.open(started.output, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            connection.sendall(_line(answer))
            recorder.forget(started)
            self.held.say(f"user {uid}: {ticket} has no trace")
            return
        try:
            socket.send_fds(connection, [_line(answer)], [trace])
        finally:
            os.close(trace)
        connection.settimeout(_TAKE_S)
        if connection.recv(len(TAKEN)) == TAKEN:
            self.held.say(f"user {uid}: {ticket} is saved and handed over")
            held.forget(started)
        else:
            self.held.say(f"user {uid}: {ticket} was not taken; its trace is {started.output}")


def checked_options(options: object) -> tuple[str, ...]:
    """Return options of `record` that whoever asks may set. Raises RefusedError."""
    if not isinstance(options, list) or not all(isinstance(word, str) for word in options):
        raise RefusedError("options: a list of words")
    words = iter(options)
    found: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if name in _FLAGS and not equals:
            found.append(name)
        elif name in _VALUED:
            found.append(f"{name}={value if equals else next(words, '')}")
        else:
            raise RefusedError(
                f"{name[:40]} is no option that the recorder of this machine takes from others",
                hint="without --with=" + name[:40],
            )
    return tuple(found)


def listen(path: Path) -> socket.socket:
    """Return a socket that everybody may ask; who may have what is decided by the service.

    Raises TracerError where another service listens there, or where that cannot be done.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _close_to_others(path.parent)
        _remove_left_behind(path)
        # Not by its name afterwards, which could be another's by then.
        mask = os.umask(0o111)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise TracerError(
            f"cannot listen on {path}: {error.strerror or error}", hint="--socket OTHER"
        ) from error
    except TracerError:
        listener.close()
        raise
    return listener


def _close_to_others(folder: Path) -> None:
    """Let nobody else replace the socket: a volume that containers share is open at first."""
    status = folder.stat()
    is_shared = bool(status.st_mode & stat.S_ISVTX)
    if folder == DEFAULT_SOCKET.parent and status.st_uid == os.geteuid():
        folder.chmod(0o755)
    elif status.st_mode & 0o022 and not is_shared:
        raise TracerError(f"{folder} can be written by others", hint=f"chmod 755 {folder}")


def _remove_left_behind(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        if other.connect_ex(str(path)) == 0:
            raise TracerError(f"{path}: a service listens there", hint="--socket OTHER")
    path.unlink()


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return the pid and the user of who asks."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(peer)
    return pid, uid


def _question(file: BinaryIO) -> dict[str, Any]:
    """Read one line of JSON of limited length."""
    line = file.readline(MOST_LINE_BYTES)
    question = json.loads(line) if line.endswith(b"\n") else None
    if not isinstance(question, dict):
        raise RefusedError("no question")
    return question


def _identity(file: BinaryIO, question: dict[str, Any]) -> str | None:
    """Read what is known of processes, behind a question."""
    count = question["identity_bytes"]
    if type(count) is not int or not 0 <= count <= MOST_IDENTITY_BYTES:
        raise RefusedError("identity_bytes: how many follow")
    text = file.read(count)
    return text.decode() if text and len(text) == count else None


def _checked_pids(
    pids: object, seen: dict[int, int] | None, uid: int, *, must_be_theirs: bool = True
) -> list[int]:
    """Return the pids here of processes that a user names, if they are all its.

    seen: the pids here by those that it uses; None: they are the same. The recorder looks again
    when it has opened them. Raises RefusedError, unless those of others are to be left out.
    """
    if (
        not isinstance(pids, list)
        or len(pids) > _MOST_PIDS
        or not all(type(pid) is int for pid in pids)
    ):
        raise RefusedError("pids: a list of a few numbers")
    found = []
    for number in pids:
        pid = number if seen is None else seen.get(number, 0)
        if pid > 0 and users_of(pid) == {uid}:
            found.append(pid)
        elif must_be_theirs:
            raise RefusedError(f"process {number} is none of user {uid}")
    return found


def _identity_here(identity: str | None, started: recorder.Started, peer: int) -> str | None:
    """Return what is known of processes, with their pids here."""
    seen = pids_of_peer(peer)
    if identity is None or seen is None:
        return identity
    known = held.known_pids(Path(started.folder), seen)
    if identity.count("[") + identity.count("{") > _MOST_GROUPS:
        raise RefusedError("too much is known of the processes")
    with _parsing:
        return _with_pids_here(identity, known)


def _with_pids_here(identity: str, known: dict[int, int]) -> str:
    reported = json.loads(identity)
    rows = [row for row in reported["processes"] if row["pid"] in known]
    processes = [{**row, "pid": known[row["pid"]]} for row in rows]
    methods = [[known[pid], *rest] for pid, *rest in reported["methods"] if pid in known]
    return json.dumps({**reported, "processes": processes, "methods": methods})


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"
