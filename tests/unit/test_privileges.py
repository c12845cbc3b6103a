"""Who called sudo, with which environment; all on made-up variables and a made-up /proc."""

import os
import pwd
from pathlib import Path

import pytest

from rlscope_trace.errors import TracerError
from rlscope_trace.privileges import (
    Identity,
    ancestors,
    chown_to_invoker,
    corrected_environment,
    invoking_environment,
    invoking_identity,
    merge_environment,
    parse_environ,
    parse_parent,
    sudo_environment,
)

NOBODY = pwd.getpwnam("nobody")
SUDO = {"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid), "SUDO_USER": "nobody"}


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def make_process(proc: Path, pid: int, comm: str, parent: int, environ: bytes = b"") -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} ({comm}) S {parent} {pid} {pid} 0 -1 4194304 0\n")
    (folder / "environ").write_bytes(environ)


@pytest.mark.usefixtures("as_root")
def test_identity_under_sudo() -> None:
    identity = invoking_identity(SUDO)
    assert identity is not None
    assert (identity.uid, identity.gid, identity.name) == (NOBODY.pw_uid, NOBODY.pw_gid, "nobody")
    assert set(identity.groups) == set(os.getgrouplist("nobody", NOBODY.pw_gid))


@pytest.mark.usefixtures("as_root")
def test_a_user_without_an_entry_keeps_the_one_group() -> None:
    identity = invoking_identity({"SUDO_UID": "3999999999", "SUDO_GID": "3999999998"})
    assert identity == Identity(3999999999, 3999999998, (3999999998,), None)


@pytest.mark.usefixtures("as_root")
def test_without_sudo_there_is_nobody_else() -> None:
    assert invoking_identity({}) is None
    assert invoking_identity({"SUDO_UID": "1000"}) is None


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("text", ["", "-1", "1e3", "0x0", "4294967295", "9" * 5000, "\u0661"])
def test_a_wrong_id_never_ends_as_root(text: str) -> None:
    with pytest.raises(TracerError, match="SUDO_UID"):
        invoking_identity({**SUDO, "SUDO_UID": text})


def test_the_variables_are_believed_of_root_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert invoking_identity(SUDO) is None


def test_parse_environ() -> None:
    data = b"A=1\0B=x=y\0\0junk\0=C:\0EMPTY=\0A=2\0BYTES=\xff\0"
    assert parse_environ(data) == {"A": "1", "B": "x=y", "EMPTY": "", "BYTES": "\udcff"}
    assert parse_environ(b"") == {}


@pytest.mark.parametrize("comm", ["sudo", "a b", "evil) S 1 (", "()"])
def test_parse_parent_takes_any_name(comm: str) -> None:
    assert parse_parent(f"77 ({comm}) R 55 77 77 0\n") == (comm, 55)


def test_ancestors_end_at_the_first_process(tmp_path: Path) -> None:
    make_process(tmp_path, 30, "python", 20)
    make_process(tmp_path, 20, "bash", 1)
    make_process(tmp_path, 1, "init", 0)
    assert list(ancestors(proc=tmp_path, pid=30)) == [(30, "python"), (20, "bash"), (1, "init")]
    assert list(ancestors(proc=tmp_path, pid=99)) == []


def test_the_nearest_sudo_counts(tmp_path: Path) -> None:
    make_process(tmp_path, 50, "sh", 40)
    make_process(tmp_path, 40, "sudo", 30, b"WHO=monitor\0")
    make_process(tmp_path, 30, "sudo", 20, b"WHO=main\0")
    make_process(tmp_path, 20, "bash", 0)
    assert sudo_environment(proc=tmp_path, pid=50) == {"WHO": "monitor"}
    assert sudo_environment(proc=tmp_path, pid=20) is None


def test_a_sudo_whose_environment_is_closed_is_as_none(tmp_path: Path) -> None:
    make_process(tmp_path, 40, "sudo", 0)
    assert sudo_environment(proc=tmp_path, pid=40) is None
    (tmp_path / "40/environ").unlink()
    assert sudo_environment(proc=tmp_path, pid=40) is None


def test_merged_environment_is_the_users_with_what_the_command_line_added() -> None:
    user = {"HOME": "/home/u", "PATH": "/venv/bin:/bin", "A": "1", "B": "old", "TERM": "xterm"}
    ours = {
        **SUDO,
        "SUDO_COMMAND": "x",
        "HOME": "/root",
        "PATH": "/usr/sbin",
        "TERM": "unknown",
        "MAIL": "/var/mail/root",
        "XDG_SESSION_ID": "c1",
        "_": "/usr/bin/env",
        "B": "new",
        "ADDED": "yes",
    }
    assert merge_environment(user, ours) == {**user, "B": "new", "ADDED": "yes"}


def test_environment_corrected_from_the_password_file() -> None:
    ours = {**SUDO, "HOME": "/root", "USER": "root", "MAIL": "/var/mail/root", "PATH": "/bin"}
    identity = Identity(NOBODY.pw_uid, NOBODY.pw_gid, (NOBODY.pw_gid,), "nobody")
    assert corrected_environment(ours, identity) == {
        "HOME": NOBODY.pw_dir,
        "USER": "nobody",
        "LOGNAME": "nobody",
        "SHELL": NOBODY.pw_shell,
        "PATH": "/bin",
    }
    unknown = Identity(3999999999, 3999999999, (3999999999,), None)
    assert corrected_environment(ours, unknown) == {"PATH": "/bin"}


def test_without_sudo_the_environment_is_ours() -> None:
    assert invoking_environment(None, {"A": "1", "HOME": "/root"}) == {"A": "1", "HOME": "/root"}


class ChownLog:
    """Stands in for fchown, so that the tests need no root."""

    def __init__(self) -> None:
        self.paths: set[str] = set()

    def __call__(self, fd: int, uid: int, gid: int) -> None:
        assert (uid, gid) == (7, 8)
        self.paths.add(str(Path(f"/proc/self/fd/{fd}").readlink()))


@pytest.fixture
def chowned(monkeypatch: pytest.MonkeyPatch) -> ChownLog:
    log = ChownLog()
    monkeypatch.setattr(os, "fchown", log)
    return log


USER = Identity(uid=7, gid=8, groups=(8,), name=None)


def test_a_file_of_ours_is_given_away(tmp_path: Path, chowned: ChownLog) -> None:
    trace = tmp_path / "run.duckdb"
    trace.touch()
    chown_to_invoker(trace, None)
    assert chowned.paths == set()
    chown_to_invoker(trace, USER)
    assert chowned.paths == {str(trace)}


def test_a_folder_is_given_away_with_its_files(tmp_path: Path, chowned: ChownLog) -> None:
    spool = tmp_path / "run.spool"
    (spool / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (spool / name).touch()
    (spool / "link").symlink_to(tmp_path)
    chown_to_invoker(spool, USER)
    assert chowned.paths == {str(spool / name) for name in ("", "a", "deep", "deep/b")}


def test_links_and_files_of_others_are_left_alone(tmp_path: Path, chowned: ChownLog) -> None:
    secret = tmp_path / "secret"
    secret.touch()
    (tmp_path / "soft").symlink_to(secret)
    (tmp_path / "hard").hardlink_to(secret)
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "soft_folder").symlink_to(folder)
    for name in ("soft", "hard", "soft_folder", "missing"):
        chown_to_invoker(tmp_path / name, USER)
    assert chowned.paths == set()


def test_a_file_of_another_user_is_left_alone(
    tmp_path: Path, chowned: ChownLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").touch()
    owner = (tmp_path / "theirs").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    chown_to_invoker(tmp_path / "theirs", USER)
    assert chowned.paths == set()
