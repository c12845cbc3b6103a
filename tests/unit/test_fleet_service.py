"""The recorder that runs as root, asked by users: who may have what, and what is refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from recording import until
from rlscope_trace.errors import OutputExistsError, TracerError
from rlscope_trace.fleet import recorder, service, service_link
from rlscope_trace.fleet.held import Held, RefusedError, known_pids
from rlscope_trace.fleet.namespaces import pids_of_peer
from rlscope_trace.fleet.service import Service, checked_options, listen
from rlscope_trace.procfs import users_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ME = os.getuid()
TRACE = b"a trace" * 100_000


class Recorders:
    """Recorders that are none: what was started, and what goes on."""

    def __init__(self) -> None:
        self.started: list[recorder.Recording] = []
        self.identities: list[str | None] = []
        self.running: set[str] = set()

    def start(self, wanted: recorder.Recording, folder: Path) -> recorder.Started:
        self.started.append(wanted)
        self.running.add(str(folder))
        return recorder.Started(1, "5", str(folder), wanted.output, wanted.lease_s)

    def runs(self, started: recorder.Started) -> bool:
        return started.folder in self.running

    def go_on(self, started: recorder.Started, pids: list[int]) -> bool:
        self.pids = pids
        return self.runs(started)

    def end(self, started: recorder.Started, identity: str | None, _: float) -> recorder.Left:
        self.identities.append(identity)
        self.running.discard(started.folder)
        with open(started.output, "wb") as file:  # noqa: PTH123
            file.write(TRACE)
        return recorder.Left("warning: some words\n", was_recovered=False)


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> Recorders:
    made = Recorders()
    for name in ("start", "runs", "go_on", "end"):
        monkeypatch.setattr(recorder, name, getattr(made, name))
    return made


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorders: Recorders, said: list[str]
) -> Iterator[Callable[[set[int]], Path]]:
    """Serve these users; return the folder of the service."""
    del recorders
    path = tmp_path / "run/fleet.sock"
    monkeypatch.setenv(service_link.SOCKET_VARIABLE, str(path))
    # What doctor says has tests of its own, and takes half a second.
    monkeypatch.setattr(recorder, "refusal", lambda: (None, None))
    listeners = []

    def serve(users: set[int]) -> Path:
        listeners.append(listen(path))
        one = Service(users, Held(tmp_path / "held", 1 << 30, said.append))
        threading.Thread(target=one.run, args=(listeners[0],), daemon=True).start()
        return tmp_path / "held"

    yield serve
    for listener in listeners:
        # close() alone leaves accept() waiting.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def recording(output: Path, *options: str, pids: tuple[int, ...] = ()) -> recorder.Recording:
    return recorder.Recording(str(output), "session-5", 20.0, pids or (os.getpid(),), options)


def test_a_recording_from_its_start_to_the_trace(
    serving: Callable[[set[int]], Path], recorders: Recorders, tmp_path: Path, said: list[str]
) -> None:
    held = serving({ME})
    output = tmp_path / "trace.duckdb"
    started = service_link.start(recording(output, "--ray-job", "02000000", "--no-calibrate"))
    (wanted,) = recorders.started
    assert wanted.output.startswith(f"{held}/{ME}/")
    assert wanted.pids == (os.getpid(),)
    assert wanted.options == ("--ray-job=02000000", "--no-calibrate")
    assert service_link.go_on(started, [os.getpid()])
    assert recorders.pids == [os.getpid()]
    left = service_link.end(started, '{"processes": []}', 10.0)
    assert left == recorder.Left("warning: some words\n", was_recovered=False)
    assert output.read_bytes() == TRACE
    assert recorders.identities == ['{"processes": []}']
    # The service removes it when it has heard that it was taken.
    until(lambda: list((held / str(ME)).iterdir()) == [], what="nothing is left of it")
    with pytest.raises(TracerError, match="no such recording"):
        service_link.go_on(started)
    until(lambda: said and "saved and handed over" in said[-1], what="it is said")
    assert "saved and handed over" in said[-1]


def test_a_file_that_is_there_is_not_replaced(
    serving: Callable[[set[int]], Path], recorders: Recorders, tmp_path: Path
) -> None:
    held = serving({ME})
    output = tmp_path / "trace.duckdb"
    started = service_link.start(recording(output))
    output.write_text("mine")
    with pytest.raises(FileExistsError):
        service_link.end(started, None, 10.0)
    assert output.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # The service still has it.
    assert len(list((held / str(ME)).iterdir())) == 1
    with pytest.raises(OutputExistsError):
        service_link.start(recording(output))
    forced = service_link.start(recording(output, "--force"))
    service_link.end(forced, None, 10.0)
    assert output.read_bytes() == TRACE
    assert len(recorders.started) == 2


def test_who_is_not_named_gets_nothing(serving: Callable[[set[int]], Path], tmp_path: Path) -> None:
    serving({ME + 1})
    with pytest.raises(TracerError, match=f"user {ME} may not record here") as refused:
        service_link.start(recording(tmp_path / "trace.duckdb"))
    assert refused.value.hints == (f"rlscope-trace fleet serve --user {ME}",)


def test_processes_of_others_are_not_recorded(
    serving: Callable[[set[int]], Path],
    recorders: Recorders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serving({ME})
    theirs = os.getppid()
    monkeypatch.setattr(service, "users_of", lambda pid: {ME} if pid == os.getpid() else {ME, 1})
    with pytest.raises(TracerError, match=f"process {theirs} is none of user {ME}"):
        service_link.start(recording(tmp_path / "a.duckdb", pids=(os.getpid(), theirs)))
    assert recorders.started == []
    started = service_link.start(recording(tmp_path / "a.duckdb"))
    # A driver that has ended meanwhile is no reason to end.
    assert service_link.go_on(started, [theirs, os.getpid()])
    assert recorders.pids == [os.getpid()]


@pytest.mark.parametrize(
    "options",
    [
        ["--output", "/etc/passwd"], ["-o/etc/passwd"], ["--output=/etc/passwd"],
        ["--phases=/etc/shadow"], ["--inject"], ["--pid=1"], ["--lease=/x"], ["--ray=/x"],
        ["--session=other"], ["--", "sh"], ["sh"], ["--force=yes"], [""], ["--auto", 5], "--auto",
    ],
    ids=str,
)  # fmt: skip
def test_options_that_name_files_or_programs_are_refused(options: Any) -> None:  # noqa: ANN401
    with pytest.raises(RefusedError):
        checked_options(options)


def test_an_option_is_one_word_whatever_follows() -> None:
    """What follows is its value, and no option of its own."""
    assert checked_options(["--gil", "--output", "--sample-hz=99"]) == (
        "--gil=--output", "--sample-hz=99",
    )  # fmt: skip
    assert checked_options(["--gil"]) == ("--gil=",)


@pytest.mark.parametrize(
    "question",
    [
        b"\n", b"{\n", b"[]\n", b"5\n", b"[" * 100_000 + b"\n", b'{"do": "delete"}\n',
        b'{"do": "beat"}\n', b'{"do": "beat", "ticket": "../../etc", "pids": []}\n',
        b'{"do": "beat", "ticket": ["a"], "pids": []}\n', b'{"do": "stop", "ticket": null}\n',
        b'{"do": "stop", "ticket": "00000000000000000000000000000000"}\n',
        b'{"do": "stop", "ticket": "00000000000000000000000000000000", "identity_bytes": 0}\n',
        b'{"do": "stop", "ticket": "", "identity_bytes": 99999999999}\n',
        b'{"do": "start", "session": "x", "lease_s": 5, "pids": [1e999], "options": []}\n',
        b'{"do": "start", "session": "x", "lease_s": 1' + b"0" * 400 + b', "pids": [],'
        b' "options": []}\n',
        b'{"do": "start", "session": "../x", "lease_s": 5, "pids": [], "options": []}\n',
        b'{"do": "start", "session": "x", "lease_s": "y", "pids": [], "options": []}\n',
        b'{"do": "start", "session": "x", "lease_s": 5, "pids": ["a"], "options": []}\n',
        b'{"do": "start", "session": "x", "lease_s": 5, "pids": [-1], "options": []}\n',
        b'{"do": "start", "session": "x", "lease_s": 1e999, "pids": [[]], "options": []}\n',
        b"\xff\xfe\n",
    ],
    ids=lambda question: question[:60].decode(errors="replace"),
)  # fmt: skip
def test_a_question_that_is_none_gets_an_error_and_leaves_nothing(
    serving: Callable[[set[int]], Path], question: bytes
) -> None:
    held = serving({ME})
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(os.environ[service_link.SOCKET_VARIABLE])
        connection.sendall(question)
        answer = json.loads(connection.makefile().readline())
    assert answer["error"]
    assert not list(held.glob("*/*"))
    # And the next one is answered.
    assert service_link.facts() is not None


def test_who_says_nothing_or_too_much_holds_nobody_up(
    serving: Callable[[set[int]], Path],
) -> None:
    serving({ME})
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(os.environ[service_link.SOCKET_VARIABLE])
    with socket.socket(socket.AF_UNIX) as much:
        much.connect(os.environ[service_link.SOCKET_VARIABLE])
        much.settimeout(30)
        much.sendall(b" " * service.MOST_LINE_BYTES)
        assert b"no question" in much.recv(4096)
    assert service_link.facts() is not None
    silent.close()


def test_so_many_recordings_of_a_user_and_the_newest_traces(
    serving: Callable[[set[int]], Path], recorders: Recorders, tmp_path: Path, said: list[str]
) -> None:
    held = serving({ME})
    for number in range(4):
        service_link.start(recording(tmp_path / f"{number}.duckdb"))
    with pytest.raises(TracerError, match="4 recordings of user"):
        service_link.start(recording(tmp_path / "5.duckdb"))
    # All have ended, and nobody has taken them: the oldest one goes.
    first = recorders.started[0].output.rpartition("/")[0]
    for at, wanted in enumerate(recorders.started):
        os.utime(wanted.output.rpartition("/")[0], (at, at))
    recorders.running.clear()
    service_link.start(recording(tmp_path / "6.duckdb"))
    assert not os.path.exists(first)  # noqa: PTH110
    assert len(list((held / str(ME)).iterdir())) == 4
    assert any("was not taken and is removed" in line for line in said)


def test_starts_at_once_do_not_exceed_the_limit(
    serving: Callable[[set[int]], Path],
    recorders: Recorders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is being started counts; what was given up long ago does not."""
    held = serving({ME})
    begun, release = threading.Semaphore(0), threading.Event()

    def slowly(wanted: recorder.Recording, folder: Path) -> recorder.Started:
        begun.release()
        release.wait(30)
        return recorders.start(wanted, folder)

    monkeypatch.setattr(recorder, "start", slowly)
    threads = [
        threading.Thread(target=service_link.start, args=(recording(tmp_path / f"{at}.duckdb"),))
        for at in range(4)
    ]
    for thread in threads:
        thread.start()
    assert all(begun.acquire(timeout=30) for _ in threads)
    with pytest.raises(TracerError, match="4 recordings of user"):
        service_link.start(recording(tmp_path / "5.duckdb"))
    release.set()
    for thread in threads:
        thread.join()
    recorders.running.clear()
    given_up = held / str(ME) / ("0" * 32)
    given_up.mkdir()
    os.utime(given_up, (0, 0))
    service_link.start(recording(tmp_path / "6.duckdb"))
    assert not given_up.exists()


def test_a_start_that_fails_leaves_no_recorder(
    serving: Callable[[set[int]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = serving({ME})
    abandoned: list[recorder.Started] = []

    def fail(_: recorder.Started) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rlscope_trace.fleet.held.keep", fail)
    monkeypatch.setattr(recorder, "abandon", abandoned.append)
    with pytest.raises(TracerError, match="No space left"):
        service_link.start(recording(tmp_path / "a.duckdb"))
    assert len(abandoned) == 1
    assert list((held / str(ME)).iterdir()) == []


def test_what_a_user_takes_of_the_disk_is_limited(
    serving: Callable[[set[int]], Path],
    recorders: Recorders,
    tmp_path: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = serving({ME})
    started = service_link.start(recording(tmp_path / "a.duckdb"))
    stopped: list[recorder.Started] = []
    monkeypatch.setattr(recorder, "stop", stopped.append)
    assert service_link.go_on(started)
    assert stopped == []
    (held / str(ME) / started.ticket / "large").write_bytes(b"x" * 10_000)
    monkeypatch.setattr(Held, "is_full", lambda self, uid: True)
    service_link.go_on(started)
    assert len(stopped) == 1
    assert "too much room" in said[-1]
    with pytest.raises(TracerError, match="takes too much room"):
        service_link.start(recording(tmp_path / "b.duckdb"))
    assert recorders.started


def test_pids_that_were_seen_once_stay_known(tmp_path: Path) -> None:
    assert known_pids(tmp_path, {5: 105}) == {5: 105}
    assert known_pids(tmp_path, {6: 106}) == {5: 105, 6: 106}
    assert known_pids(tmp_path, {5: 205}) == {5: 205, 6: 106}
    # No more than so many are kept.
    assert len(known_pids(tmp_path, dict.fromkeys(range(30_000), 1))) == 30_000
    assert known_pids(tmp_path, {}) == {5: 205, 6: 106}


def test_a_service_that_is_started_anew_goes_on(
    serving: Callable[[set[int]], Path], recorders: Recorders, tmp_path: Path
) -> None:
    held = serving({ME})
    started = service_link.start(recording(tmp_path / "a.duckdb"))
    again = Service({ME}, Held(held, 1 << 30, lambda _: None))
    assert again._beat({"ticket": started.ticket, "pids": []}, os.getpid(), ME) == {"runs": True}
    with pytest.raises(RefusedError):
        again._beat({"ticket": started.ticket, "pids": []}, os.getpid(), ME + 1)
    assert recorders.started


def test_while_the_service_is_away_the_recording_is_not_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(service_link.SOCKET_VARIABLE, str(tmp_path / "none.sock"))
    served = service_link.Served("0" * 32, str(tmp_path / "a.duckdb"), 20.0, may_replace=False)
    assert service_link.facts() is None
    assert service_link.go_on(served)
    with pytest.raises(TracerError, match="does not answer") as failure:
        service_link.end(served, None, 1.0)
    assert failure.value.hints


def test_a_second_service_is_told_and_a_socket_left_behind_is_not_in_the_way(
    tmp_path: Path,
) -> None:
    path = tmp_path / "fleet.sock"
    first = listen(path)
    with pytest.raises(TracerError, match="a service listens there"):
        listen(path)
    first.close()
    listen(path).close()


def test_pids_of_a_process_in_our_own_namespace_are_the_same() -> None:
    assert pids_of_peer(os.getpid()) is None
    assert users_of(os.getpid()) == {ME}
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert users_of(child.pid) == set()
    with pytest.raises(OSError, match=str(child.pid)):
        pids_of_peer(child.pid)
