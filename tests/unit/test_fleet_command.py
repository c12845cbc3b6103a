"""`fleet summarize` and `fleet sql`: many traces, some of them damaged or missing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from compared_traces import MS, Step, write_trace
from recording import rlscope
from rlscope_analysis.errors import TraceError
from rlscope_analysis.fleet.members import find_members
from rlscope_analysis.fleet.partial_file import (
    PartialReader,
    fingerprint,
    partial_path,
    write_partial,
)
from rlscope_trace import __version__

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for at in range(COUNT):
        steps = [Step(simulation=(40 + 10 * at) * MS)] * 4
        write_trace(folder / f"n{at}.duckdb", steps, meta={"host": f"node-{at}", "boot_id": "b"})
    # With partials: they are good for a copy that keeps the times of the files, too.
    assert rlscope("fleet", "summarize", folder).returncode == 0
    return folder


@pytest.fixture
def fleet(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "fleet")


def summarized(*arguments: str | Path) -> dict[str, Any]:
    done = rlscope("fleet", "summarize", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def total_of(folder: Path) -> int:
    """Add up how long each thread was traced: the law that a breakdown keeps to."""
    total = 0
    for path in folder.glob("*.duckdb"):
        with duckdb.connect(str(path), read_only=True) as connection:
            ((one,),) = connection.execute(
                "SELECT sum(end_ns - start_ns)::BIGINT FROM thread"
            ).fetchall()
            total += one
    return total


def test_sums_are_those_of_all_traces_and_partials_are_used_again(fleet: Path) -> None:
    for path in fleet.glob("*.parquet"):
        path.unlink()
    first = summarized(fleet)
    assert first["breakdown_total_ns"] == total_of(fleet)
    assert first["traces"] == COUNT
    assert first["critical_path_ns"] == sum((91 + 10 * at) * 4 * MS for at in range(COUNT))
    assert sum(row["time_ns"] for row in first["rows"] if row["kind"] == "process") == total_of(
        fleet
    )
    (simulation,) = (
        row for row in first["rows"] if (row["kind"], row["name"]) == ("operation", "simulation")
    )
    assert simulation["members"] == COUNT
    assert simulation["most_in"] == "n2"
    assert simulation["most_share"] == pytest.approx(60 / 111)
    assert simulation["least_share"] == pytest.approx(40 / 91)

    kept = sorted(fleet.glob("*.partial.parquet"))
    assert len(kept) == COUNT
    assert max(path.stat().st_size for path in kept) <= 64_000
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    # Another trace in the place of one, and that one only is worked out again.
    before = [path.stat().st_ino for path in kept]
    write_trace(fleet / "other.duckdb", [Step(simulation=MS)] * 4, meta={"host": "node-1"})
    (fleet / "other.duckdb").replace(fleet / "n1.duckdb")
    again = summarized(fleet)
    assert again["breakdown_total_ns"] == total_of(fleet) < first["breakdown_total_ns"]
    after = [path.stat().st_ino for path in kept]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


def test_damaged_missing_and_doubled_traces_are_named(fleet: Path) -> None:
    (fleet / "n1.duckdb").write_bytes((fleet / "n1.duckdb").read_bytes()[:9000])
    done = rlscope("fleet", "summarize", fleet, fleet / "gone.duckdb", "--no-keep", "--all")
    assert done.returncode == 0, done.stderr
    assert "n1 left out: cannot read" in done.stdout
    assert "gone left out: there is no trace at" in done.stdout
    assert "2 traces of 2 hosts" in done.stdout
    assert "2 traces left out" in done.stdout


def test_a_manifest_lists_members_that_may_be_gone(fleet: Path) -> None:
    members = [{"node": f"node {at}", "trace": f"n{at}.duckdb"} for at in range(COUNT + 1)]
    manifest = {"format": "rlscope-fleet", "version": 1, "members": members}
    (fleet / "manifest.json").write_text(json.dumps(manifest))
    found = summarized(fleet)
    assert [one["member"] for one in found["members"]] == ["node 0", "node 1", "node 2"]
    assert [one["member"] for one in found["left_out_traces"]] == ["node 3"]
    for wrong in ("../n0.duckdb", "/etc/passwd", "", 7):
        manifest["members"] = [{"node": "a", "trace": wrong}]
        (fleet / "manifest.json").write_text(json.dumps(manifest))
        done = rlscope("fleet", "summarize", fleet)
        assert done.returncode == 1
        assert "is not the manifest of a fleet" in done.stderr


def test_nothing_to_summarize_is_an_error_with_a_hint(tmp_path: Path) -> None:
    done = rlscope("fleet", "summarize", tmp_path)
    assert done.returncode == 1
    assert f"error: {tmp_path} holds no *.duckdb" in done.stderr
    assert "hint:" in done.stderr
    done = rlscope("fleet", "summarize", tmp_path / "gone.duckdb")
    assert done.returncode == 1
    assert "none of the traces can be read; gone: there is no trace at" in done.stderr


def test_one_query_on_each_trace_stacks_their_rows(fleet: Path) -> None:
    query = "SELECT count(*) AS n, sum(time_ns)::BIGINT AS time_ns FROM breakdown"
    done = rlscope("fleet", "sql", query, fleet, "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["trace"] for row in rows] == ["n0", "n1", "n2"]
    assert sum(row["time_ns"] for row in rows) == total_of(fleet)
    done = rlscope("fleet", "sql", query, fleet, fleet / "gone.duckdb", "--format", "csv")
    assert done.returncode == 1
    assert "warning: gone left out: there is no trace at" in done.stderr
    assert len(done.stdout.splitlines()) == 1 + COUNT


def test_a_query_that_fails_is_named_once(fleet: Path) -> None:
    done = rlscope("fleet", "sql", "SELECT nothing FROM nowhere", fleet)
    assert done.returncode == 1
    assert done.stderr.startswith("error: n0: ")
    assert done.stderr.count("nowhere") == 1


@pytest.mark.parametrize("form", ["csv", "markdown", "html"])
def test_every_format_has_the_members(fleet: Path, form: str) -> None:
    done = rlscope("fleet", "summarize", fleet, "--format", form)
    assert done.returncode == 0, done.stderr
    assert "n2" in done.stdout
    assert "simulation" in done.stdout or form != "csv"


def test_words_of_a_partial_that_compress_are_not_read_as_long_as_they_are(fleet: Path) -> None:
    trace = fleet / "n0.duckdb"
    path, bomb = partial_path(trace), fleet / "bomb"
    with duckdb.connect() as connection:
        query = "SELECT value FROM parquet_kv_metadata(?) WHERE decode(key) = 'mark'"
        ((mark,),) = connection.execute(query, [str(path)]).fetchall()
        long = f"SELECT * REPLACE (repeat('x', 1_000_000) AS name) FROM '{path}' LIMIT 40"
        connection.execute(
            f"COPY ({long}) TO '{bomb}' (FORMAT parquet, COMPRESSION zstd,"
            f" KV_METADATA {{mark: '{mark.decode()}', facts: '{{}}'}})"
        )
    bomb.replace(path)
    tracemalloc.start()
    try:
        with PartialReader([trace]) as reader:
            assert reader.read(trace, mark.decode()) is None
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 10_000_000


def test_a_manifest_that_names_one_trace_twice_is_none(fleet: Path) -> None:
    members = [{"node": f"node {at}", "trace": "n0.duckdb"} for at in range(2)]
    manifest = {"format": "rlscope-fleet", "version": 1, "members": members}
    (fleet / "manifest.json").write_text(json.dumps(manifest))
    done = rlscope("fleet", "summarize", fleet)
    assert done.returncode == 1
    assert "two members have the trace 'n0.duckdb'" in done.stderr


def test_a_manifest_of_very_many_members_is_none(tmp_path: Path) -> None:
    members = [{"node": f"{at}", "trace": f"{at}.duckdb"} for at in range(10_001)]
    manifest = {"format": "rlscope-fleet", "version": 1, "members": members}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match="more than 10,000 members"):
        find_members([path])


def test_a_manifest_of_very_many_lists_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text('{"members": [' + ",".join(["[]"] * 600_000) + "]}")
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="500,000 lists and objects"):
            find_members([path])
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is read at once; the lists would take 40 MB more.
    assert most_bytes < 20_000_000


def test_traces_lie_as_deep_as_they_like(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("x", dir_fd=here)
        below = os.open("x", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("t.duckdb", os.O_CREAT, dir_fd=here))
    os.close(here)
    try:
        assert list(find_members([tmp_path]).traces) == ["t"]
    finally:
        # shutil.rmtree() recurses.
        subprocess.run(["rm", "-r", str(tmp_path / "x")], check=True)


def test_folders_that_cannot_be_read_are_named(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fleet / "closed").mkdir()
    scan = os.scandir

    def refuse(path: Path) -> Any:  # noqa: ANN401 - what os.scandir returns
        if path.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_members([fleet])
    assert len(found.traces) == COUNT
    assert found.unread == {str(fleet / "closed"): "Permission denied"}


def test_an_iteration_that_a_partial_has_twice_is_worked_out_again(fleet: Path) -> None:
    trace = fleet / "n0.duckdb"
    mark = fingerprint(trace, reader=__version__, per=None)
    with PartialReader([trace]) as reader:
        kept = reader.read(trace, mark)
    assert kept is not None
    twice = next(row for row in kept.rows if row.kind == "iteration")
    write_partial(replace(kept, rows=(*kept.rows, twice)), partial_path(trace), mark)
    with PartialReader([trace]) as reader:
        assert reader.read(trace, mark) is None


def test_a_name_that_no_file_can_have_is_a_member_that_is_missing(fleet: Path) -> None:
    text = (
        '{"format": "rlscope-fleet", "version": 1, "members":'
        ' [{"node": "a", "trace": "n0.duckdb"}, {"node": "b", "trace": "\\ud800/t.duckdb"}]}'
    )
    (fleet / "manifest.json").write_text(text)
    done = rlscope("fleet", "summarize", fleet)
    assert done.returncode == 0, done.stderr
    assert "b left out: " in done.stdout


def test_a_folder_that_is_gone_is_said(fleet: Path) -> None:
    gone = fleet / "gone"
    gone.mkdir()
    script = 'rmdir ../gone; exec "$@"'
    # As `python -m` does not start there.
    command = [sys.executable, "-c", "from rlscope_trace.cli import main; main()"]
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command, "fleet", "summarize", "n0.duckdb"],
        cwd=gone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "error: the current folder is not there any more\nhint: cd" in done.stderr


@pytest.mark.root
def test_a_partial_that_another_user_can_hold_a_lease_on_is_not_opened(fleet: Path) -> None:
    trace = fleet / "n0.duckdb"
    mark = fingerprint(trace, reader=__version__, per=None)
    for path in (trace, partial_path(trace)):
        os.chown(path, 12345, 12345)
    with PartialReader([trace]) as reader:
        assert reader.read(trace, mark) is None
