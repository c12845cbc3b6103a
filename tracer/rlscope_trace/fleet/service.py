"""A recorder for programs without the rights to record: it runs as root, and does what it is asked.

    rlscope-trace fleet serve --user ray         # on each node, by systemd or as a container

A keeper asks by a socket of this machine, one question and one answer per connection:

    {"do": "facts"}
    {"do": "start", "session": ..., "lease_s": ..., "pids": [...], "options": [...]}
    {"do": "beat", "ticket": ..., "pids": [...]}
    {"do": "stop", "ticket": ..., "identity": ...}    the answer brings the open trace along

Nobody who asks is trusted. The OS kernel says who it is: one of the named users, who may record
processes of that user only. No name of a file crosses the socket: traces are written where only
root is, and handed over as an open file. Options are those that name no file.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace import __version__
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet import recorder
from rlscope_trace.fleet.connections import serve_each
from rlscope_trace.fleet.namespaces import pids_of_peer, uids_of
from rlscope_trace.record.shims import checked_session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

DEFAULT_SOCKET = Path("/run/rlscope-trace/fleet.sock")
DEFAULT_FOLDER = Path("/var/lib/rlscope-trace")
MOST_BYTES = 8 << 20
TAKEN = b"taken\n"

_QUESTION_S, _TAKE_S, _SAVE_S = 10.0, 600.0, 900.0
_MOST_CONNECTIONS, _MOST_PIDS, _MOST_RECORDINGS = 32, 256, 4
_LEASE_S = (5.0, 300.0)
_TICKET = re.compile(r"[0-9a-f]{32}", re.ASCII)
_TRACE, _STARTED = "trace.duckdb", "started.json"
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


class RefusedError(TracerError):
    """What was asked is not done."""


@dataclass(slots=True)
class Service:
    """Recordings of some users, in a folder of root's."""

    users: Collection[int]
    folder: Path
    say: Callable[[str], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known_pids: dict[str, dict[int, int]] = field(default_factory=dict)
    """Of each recording from another pid namespace: the pids here of those there."""

    def run(self, listener: socket.socket) -> None:
        """Answer until the listener is closed."""
        serve_each(listener, _MOST_CONNECTIONS, self._answer)

    def _answer(self, connection: socket.socket) -> None:
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        pid, uid, _ = _PEER.unpack(peer)
        try:
            # All of it, also of a stranger: who still writes would not get the answer.
            question = _question(connection)
            if uid not in self.users:
                raise RefusedError(
                    f"user {uid} may not record here",
                    hint=f"rlscope-trace fleet serve --user {uid}",
                )
            what = question.get("do")
            if what == "stop":
                self._stop(connection, question, pid, uid)
                return
            answers = {"facts": self._facts, "start": self._start, "beat": self._beat}
            if what not in answers:
                raise RefusedError("no such question")
            answer = answers[what](question, pid, uid)
        except TracerError as error:
            answer = {"error": str(error), "hint": next(iter(error.hints), None)}
        except (OSError, ValueError, TypeError, KeyError) as error:
            answer = {"error": f"it cannot be done: {error!r}"[:300], "hint": None}
        connection.sendall(_line(answer))

    def _facts(self, _question: dict[str, Any], _pid: int, _uid: int) -> dict[str, Any]:
        refusal, remedy = recorder.refusal()
        return {"version": __version__, "refusal": refusal, "remedy": remedy}

    def _start(self, question: dict[str, Any], pid: int, uid: int) -> dict[str, Any]:
        options = checked_options(question["options"])
        session = checked_session(str(question["session"]))
        lease_s = min(max(float(question["lease_s"]), _LEASE_S[0]), _LEASE_S[1])
        with self._lock:
            self._make_room(uid)
            ticket = secrets.token_hex(16)
            folder = self.folder / str(uid) / ticket
            folder.mkdir(mode=0o700, parents=True)
        try:
            pids = tuple(self._checked_pids(question["pids"], ticket, pid, uid))
            if not pids:
                raise RefusedError("no process to record")
            order = recorder.Recording(str(folder / _TRACE), session, lease_s, pids, options)
            started = recorder.start(order, folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        (folder / _STARTED).write_text(json.dumps(asdict(started)))
        self.say(f"user {uid}: recording {', '.join(map(str, pids))} as {ticket}")
        return {"ticket": ticket}

    def _beat(self, question: dict[str, Any], pid: int, uid: int) -> dict[str, Any]:
        ticket, started = self._started(question, uid)
        # A driver may have ended, or its pid be another's by now: that is no reason to stop.
        pids = self._checked_pids(question["pids"], ticket, pid, uid, must_be_theirs=False)
        return {"runs": recorder.go_on(started, pids)}

    def _stop(
        self, connection: socket.socket, question: dict[str, Any], pid: int, uid: int
    ) -> None:
        ticket, started = self._started(question, uid)
        identity = self._identity_here(question.get("identity"), ticket, pid)
        left = recorder.end(started, identity, _SAVE_S)
        answer = {"words": left.words[-4000:], "was_recovered": left.was_recovered}
        trace = Path(started.output)
        if not trace.exists():
            connection.sendall(_line({**answer, "has_trace": False}))
            recorder.forget(started)
            self.say(f"user {uid}: {ticket} has no trace")
            return
        descriptor = os.open(trace, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            socket.send_fds(connection, [_line({**answer, "has_trace": True})], [descriptor])
        finally:
            os.close(descriptor)
        connection.settimeout(_TAKE_S)
        if connection.recv(len(TAKEN)) == TAKEN:
            recorder.forget(started)
            self._known_pids.pop(ticket, None)
            self.say(f"user {uid}: {ticket} is saved and handed over")
        else:
            self.say(f"user {uid}: {ticket} was not taken; its trace is {trace}")

    def _started(self, question: dict[str, Any], uid: int) -> tuple[str, recorder.Started]:
        ticket = question["ticket"]
        if not isinstance(ticket, str) or _TICKET.fullmatch(ticket) is None:
            raise RefusedError("no such recording")
        # Below the folder of the user who asks: a ticket of another one is not found.
        path = self.folder / str(uid) / ticket / _STARTED
        try:
            return ticket, _read_started(path)
        except FileNotFoundError as error:
            raise RefusedError("no such recording") from error

    def _make_room(self, uid: int) -> None:
        """Keep the newest traces that nobody took, and so many recordings of a user at once."""
        held = []
        for path in (self.folder / str(uid)).glob(f"*/{_STARTED}"):
            with suppress(OSError, ValueError, TypeError):
                held.append((path.stat().st_mtime, _read_started(path)))
        running = [one for _, one in held if recorder.runs(one)]
        if len(running) >= _MOST_RECORDINGS:
            raise RefusedError(
                f"{len(running)} recordings of user {uid} are running, no more are allowed",
                hint="they save by themselves soon after nobody asks after them",
            )
        ended = sorted((when, one.folder) for when, one in held if not recorder.runs(one))
        for _, folder in ended[: max(len(ended) - _MOST_RECORDINGS + 1, 0)]:
            shutil.rmtree(folder, ignore_errors=True)
            self.say(f"user {uid}: {folder} was not taken and is removed: there are newer ones")

    def _checked_pids(
        self, pids: object, ticket: str, peer: int, uid: int, *, must_be_theirs: bool = True
    ) -> list[int]:
        """Return the pids here of processes that the peer calls by those numbers, if they are its.

        Raises RefusedError, unless those of others are to be left out.
        """
        if not isinstance(pids, list) or len(pids) > _MOST_PIDS:
            raise RefusedError("pids: a list of a few numbers")
        here = pids_of_peer(peer)
        if here is not None:
            self._known_pids.setdefault(ticket, {}).update(here)
        found = []
        for number in pids:
            pid = int(number) if here is None else here.get(int(number), 0)
            if pid > 0 and uids_of(pid) == {uid}:
                found.append(pid)
            elif must_be_theirs:
                raise RefusedError(f"process {number} is none of user {uid}")
        return found

    def _identity_here(self, identity: object, ticket: str, peer: int) -> str | None:
        """Return what is known of processes, with their pids here."""
        if not isinstance(identity, str):
            return None
        here = pids_of_peer(peer)
        if here is None:
            return identity
        known = {**self._known_pids.get(ticket, {}), **here}
        told = json.loads(identity)
        rows = [row for row in told["processes"] if row["pid"] in known]
        processes = [{**row, "pid": known[row["pid"]]} for row in rows]
        methods = [[known[pid], *rest] for pid, *rest in told["methods"] if pid in known]
        return json.dumps({**told, "processes": processes, "methods": methods})


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
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                if other.connect_ex(str(path)) == 0:
                    raise TracerError(f"{path}: a service listens there", hint="--socket OTHER")
            path.unlink()
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(_MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise TracerError(
            f"cannot listen on {path}: {error.strerror or error}", hint="--socket OTHER"
        ) from error
    except TracerError:
        listener.close()
        raise
    return listener


def _read_started(path: Path) -> recorder.Started:
    return recorder.Started(**json.loads(path.read_text()))


def _question(connection: socket.socket) -> dict[str, Any]:
    """Read one line of JSON, of limited length and within limited time."""
    end_s = time.monotonic() + _QUESTION_S
    text = bytearray()
    while not text.endswith(b"\n"):
        connection.settimeout(max(end_s - time.monotonic(), 0.001))
        part = connection.recv(1 << 16)
        text += part
        if not part or len(text) > MOST_BYTES:
            raise RefusedError("no question")
    try:
        question = json.loads(text)
    except RecursionError as error:
        raise RefusedError("no question") from error
    if not isinstance(question, dict):
        raise RefusedError("no question")
    return question


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"
