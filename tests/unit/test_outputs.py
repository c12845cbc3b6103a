"""Outputs are written by descriptors of folders: whatever others plant there leads nowhere."""

import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rlscope_analysis.fleet.members import PARTIAL_SUFFIX
from rlscope_trace.cli.output import write_file
from rlscope_trace.cli.timeline_file import write_timeline
from rlscope_trace.errors import OutputExistsError, TracerError
from rlscope_trace.fleet.coordinator import Member
from rlscope_trace.fleet.keeper import Ended
from rlscope_trace.fleet.manifest import keep_partials, write_manifest
from rlscope_trace.fleet.ray_cluster import Node
from rlscope_trace.outputs.place import open_place
from rlscope_trace.outputs.private import NotOursError
from rlscope_trace.outputs.trusted import (
    ForeignLinkError,
    make_folder,
    open_existing,
    open_folder,
)
from rlscope_trace.record.session import prepare_output

STRANGER = 12345


def publish(output: Path, *, overwrite: bool = False, mode: int = 0o600) -> None:
    with open_place(output) as place:
        place.refuse_existing(overwrite=overwrite)
        with place.unfinished() as folder:
            (folder.path / "trace").write_text("ours")
            place.publish(folder, "trace", overwrite=overwrite, mode=mode)


def theirs(path: Path) -> Path:
    os.lchown(path, STRANGER, STRANGER)
    return path


def test_only_the_owner_may_read_what_is_written(tmp_path: Path) -> None:
    publish(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600
    publish(tmp_path / "shared", mode=0o644)
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "shared"]


def test_what_is_unfinished_is_closed_to_others(tmp_path: Path) -> None:
    with open_place(tmp_path / "out") as place, place.unfinished() as folder:
        assert stat.S_IMODE((tmp_path / "out.partial").stat().st_mode) == 0o700
        (folder.path / "trace.wal").write_text("half")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_planted_link_is_never_written_through(tmp_path: Path, *, overwrite: bool) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    output = tmp_path / "out"
    output.symlink_to(victim)
    if overwrite:
        publish(output, overwrite=True)
        assert not output.is_symlink()
    else:
        with pytest.raises(OutputExistsError):
            publish(output)
    assert victim.read_text() == "precious"


def test_a_dangling_link_is_no_free_name(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputExistsError):
        publish(tmp_path / "out")
    assert not (tmp_path / "elsewhere").exists()


def a_link(at: Path, victim: Path) -> None:
    at.symlink_to(victim)


def a_link_to_a_file(at: Path, victim: Path) -> None:
    (victim / "file").write_text("precious")
    at.symlink_to(victim / "file")


def a_file(at: Path, _victim: Path) -> None:
    at.write_text("theirs")


def a_pipe(at: Path, _victim: Path) -> None:
    os.mkfifo(at)


@pytest.mark.parametrize("plant", [a_link, a_link_to_a_file, a_file, a_pipe])
def test_what_stands_where_our_folder_goes_stays_untouched(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    plant(tmp_path / "out.partial", victim)
    before = sorted(path.name for path in victim.iterdir())
    publish(tmp_path / "out")
    assert sorted(path.name for path in victim.iterdir()) == before
    assert (tmp_path / "out").read_text() == "ours"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.partial", "victim"}


@pytest.mark.root
def test_a_folder_of_another_user_is_not_taken_for_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    left = tmp_path / "out.partial"
    left.mkdir(mode=0o700)
    theirs(left)
    publish(tmp_path / "out")
    assert list(left.iterdir()) == []
    assert (tmp_path / "out").read_text() == "ours"


@pytest.mark.root
@pytest.mark.parametrize("around", [0o1777, 0o755])
def test_an_open_folder_of_another_user_is_not_taken_for_ours(tmp_path: Path, around: int) -> None:
    """As in /tmp, where nobody can take away what is another's, and everybody can add."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(around)
    for name in ("out.partial", "out.spool"):
        left = place / name
        left.mkdir()
        left.chmod(0o777)
        (theirs(left) / "kept").write_text("theirs")
    publish(place / "out")
    assert (place / "out").read_text() == "ours"
    assert {path.name for path in (place / "out.partial").iterdir()} == {"kept"}
    (place / "out.spool" / "kept").unlink()
    with open_place(place / "out") as opened, pytest.raises(NotOursError):
        prepare_output(opened, force=True)


def test_a_folder_that_is_swapped_meanwhile_gets_nothing(tmp_path: Path) -> None:
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    folder.mkdir()
    victim.mkdir()
    with open_place(folder / "out") as place, place.unfinished() as unfinished:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(victim)
        (unfinished.path / "trace").write_text("ours")
        place.publish(unfinished, "trace", overwrite=True, mode=0o600)
    assert list(victim.iterdir()) == []
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["out"]


@pytest.mark.root
@pytest.mark.parametrize("overwrite", [False, True])
def test_in_a_folder_that_others_can_swap_only_the_complete_file_appears(
    tmp_path: Path, *, overwrite: bool
) -> None:
    folder = tmp_path / "folder" / "inner"
    folder.mkdir(parents=True)
    theirs(folder.parent)
    with open_place(folder / "out") as place, place.unfinished() as unfinished:
        assert list(folder.iterdir()) == []
        assert stat.S_IMODE(os.fstat(unfinished.descriptor).st_mode) == 0o700
        made = unfinished.path.readlink()
        (unfinished.path / "trace").write_text("ours")
        if overwrite:
            (folder / "out").write_text("old")
        place.publish(unfinished, "trace", overwrite=overwrite, mode=0o640)
    assert not made.exists()
    assert [path.name for path in folder.iterdir()] == ["out"]
    assert (folder / "out").read_text() == "ours"
    assert stat.S_IMODE((folder / "out").stat().st_mode) == 0o640


@pytest.mark.root
def test_links_of_others_are_not_followed_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    os.close(open_folder(link))
    theirs(link)
    with pytest.raises(ForeignLinkError, match="is a link of another user"):
        open_folder(link)
    with pytest.raises(ForeignLinkError):
        open_folder(link / "below")


@pytest.mark.root
def test_folders_are_made_behind_no_link_of_others(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "link").symlink_to("a")
    make_folder(tmp_path / "link" / "c")
    assert (tmp_path / "a" / "c").is_dir()
    theirs(tmp_path / "link")
    with pytest.raises(ForeignLinkError):
        make_folder(tmp_path / "link" / "d" / "e")
    assert not (tmp_path / "a" / "d").exists()
    (tmp_path / "dangling").symlink_to("elsewhere")
    with pytest.raises(OSError, match="Not a directory"):
        make_folder(tmp_path / "dangling" / "x")
    assert not (tmp_path / "elsewhere").exists()


def test_a_fleet_writes_through_no_planted_link(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("precious")
    folder.mkdir()
    partial = f"node.duckdb{PARTIAL_SUFFIX}"
    for name in ("manifest.json", "manifest.json.new", partial):
        (folder / name).symlink_to(victim)
    node = Node("n", "127.0.0.1", "host", is_head=True)
    ended = Ended("", has_trace=True, was_recovered=False, words="", partial=b"rows", mark=None)
    member = Member(node, "node", ended=ended)
    assert keep_partials(folder, [member]) == 1
    write_manifest(folder, {"format": "rlscope-fleet"})
    assert victim.read_text() == "precious"
    assert (folder / partial).read_bytes() == b"rows"
    assert '"rlscope-fleet"' in (folder / "manifest.json").read_text()


def test_ways_through_links_of_ours(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "relative").symlink_to("real/../real")
    (tmp_path / "absolute").symlink_to(tmp_path / "relative")
    found = open_folder(tmp_path / "absolute" / "deep")
    assert os.path.samestat(os.fstat(found), (tmp_path / "real" / "deep").stat())
    os.close(found)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        open_folder(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        publish(Path(__file__) / "out")


@pytest.mark.root
def test_a_pipe_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.close(open_existing(pipe, os.O_WRONLY))
    theirs(pipe)
    with pytest.raises(PermissionError, match="belongs to another user"):
        open_existing(pipe, os.O_WRONLY)
    os.close(reader)


@pytest.mark.parametrize(
    "kind", [stat.S_IFIFO, stat.S_IFSOCK, pytest.param(stat.S_IFCHR, marks=pytest.mark.root)]
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, kind: int, *, overwrite: bool) -> None:
    output = tmp_path / "out.duckdb"
    os.mknod(output, kind | 0o600, os.makedev(1, 3))
    before = output.lstat()
    with (
        open_place(output) as place,
        pytest.raises(OutputExistsError, match="is no file") as reported,
    ):
        place.refuse_existing(overwrite=overwrite)
    assert reported.value.hint == "-o FILE.duckdb"
    assert output.lstat() == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_to_what_is_open_is_never_replaced(tmp_path: Path, *, overwrite: bool) -> None:
    """As /dev/stdout: the hint to overwrite it would take it from all programs."""
    with (tmp_path / "open").open("w") as file:
        link = tmp_path / "stdout"
        link.symlink_to(f"/proc/self/fd/{file.fileno()}")
        for output in (link, Path(f"/proc/self/fd/{file.fileno()}")):
            with (
                open_place(output) as place,
                pytest.raises(OutputExistsError, match="is no file") as reported,
            ):
                place.refuse_existing(overwrite=overwrite)
            assert reported.value.hint == "-o FILE.duckdb"
    assert link.is_symlink()


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_file(path, "x" * 8192, force=False),
        lambda path: write_timeline(path, [b"x" * 8192], force=False),
    ],
)
def test_the_limit_that_stops_a_file_is_named(
    tmp_path: Path, write: Callable[[Path], object]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(TracerError, match="File too large") as raised:
            write(tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.hint == "ulimit -f unlimited"
    assert not list(tmp_path.iterdir())
