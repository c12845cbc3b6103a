"""A spool becomes a verified trace database, or stays as it is."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

import duckdb
import pytest

import rlscope_trace
from finalising import add_nothing, finalise, report_nothing
from rlscope_analysis.schema.vocabulary import BYSTANDER_EVENTS, EVENTS, SCHEMA_VERSION
from rlscope_analysis.sentences import loss_sentence
from rlscope_trace.errors import OutputExistsError, SpoolError, VerificationError
from rlscope_trace.spool.directory import open_spool
from spool_builder import CYCLE, DEAD, RUNNABLE, SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from finalising import Derive
    from rlscope_trace.ingest.writer.trace_writer import TraceReport


def run(
    directory: Path,
    output: Path,
    *,
    overwrite: bool = False,
    derive: Derive = add_nothing,
    progress: Callable[[str, int, int], None] = report_nothing,
) -> TraceReport:
    return finalise(
        open_spool(directory), output, overwrite=overwrite, derive=derive, progress=progress
    )


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(query).fetchall()


def stats(path: Path) -> dict[str, tuple[object, ...]]:
    found = rows(path, "SELECT concat_ws(' ', code, record), kind, count, first_ns FROM trace_stat")
    return {str(row[0]): row[1:] for row in found}


@pytest.fixture
def spool() -> SpoolBuilder:
    spool = SpoolBuilder()
    spool.clock(95, 10_000, 96)
    spool.thread(1, ts_ns=100, tid=10, comm=b"python", born_ns=90)
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=150, off_state=RUNNABLE, cpu=1)
    spool.thread(2, ts_ns=120, tid=11, tgid=10, creator=1, comm=b"worker")
    spool.cycle(2, off_ns=120, in_ns=130, out_ns=135, off_state=RUNNABLE, waker=1, out_state=DEAD)
    spool.cycle(1, off_ns=150, wake_ns=160, in_ns=165, out_ns=170, waker=-1)
    spool.close(1, off_ns=170)
    return spool


@pytest.fixture
def directory(spool: SpoolBuilder, tmp_path: Path) -> Path:
    return spool.write(tmp_path / "spool", end_ns=200)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "trace.duckdb"


def test_the_database_tells_what_the_spool_told(directory: Path, output: Path) -> None:
    report = run(directory, output)
    assert not directory.exists()
    assert sorted(output.parent.iterdir()) == [output]
    assert rows(
        output, "SELECT thread_id, start_ns, end_ns, state, cpu, waker_thread_id FROM thread_state"
    ) == [
        (1, 100, 110, "runnable", None, None),
        (1, 110, 150, "running", 1, None),
        (1, 150, 160, "sleeping", None, None),
        (1, 160, 165, "runnable", None, None),
        (1, 165, 170, "running", 0, None),
        (1, 170, 200, "sleeping", None, None),
        (2, 120, 130, "runnable", None, 1),
        (2, 130, 135, "running", 0, None),
    ]
    assert rows(output, "FROM thread") == [
        (1, 1, 10, 100, 200, "python", False, 0, None),
        (2, 1, 11, 120, 135, "worker", True, 0, None),
    ]
    assert rows(output, "FROM process") == [
        (1, "box", 10, None, 100, 200, "python", None, None, 90, None, None)
    ]
    assert rows(output, "FROM clock") == [(95, 10_000, 96)]
    assert stats(output) == {}
    assert dict(rows(output, "FROM meta")) == {
        "host": "box",
        "argv": '["train"]',
        "tool_version": rlscope_trace.__version__,
        "schema_version": str(SCHEMA_VERSION),
        "ended_cleanly": "true",
        "inferred_switch_ins": "0",
        "recovered": "true",
        "start_ns": "100",
        "end_ns": "200",
    }
    assert report.rows == {
        "thread_state_coded": 8, "wait_coded": 0, "thread": 2, "process": 1, "clock": 1,
        "trace_stat": 0, "coverage": 12, "meta": 9, "site": 0,
        # Why each cost is not known.
        "calibration_measured": len((*EVENTS, *BYSTANDER_EVENTS)),
    }  # fmt: skip
    assert (report.output, report.records, report.losses) == (output, 7, ())
    assert report.file_bytes == output.stat().st_size


def test_the_recorder_itself_recovers_nothing(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=200, session={"recorder_pid": os.getpid()})
    run(directory, tmp_path / "t.duckdb")
    assert rows(tmp_path / "t.duckdb", "SELECT value FROM meta WHERE key = 'recovered'") == [
        ("false",)
    ]


def test_the_file_opens_in_older_duckdbs(directory: Path, output: Path) -> None:
    run(directory, output)
    assert rows(output, "SELECT tags['storage_version'] FROM duckdb_databases()")[0] == ("v1.2.0+",)


def test_every_loss_is_told_with_its_remedy(spool: SpoolBuilder, tmp_path: Path) -> None:
    spool.thread(3, ts_ns=110, tid=12, tgid=10)
    spool.cycle(3, off_ns=115, in_ns=120, out_ns=130)
    spool.cycle(3, off_ns=125, in_ns=126, out_ns=140, off_state=RUNNABLE)
    spool.cycle(9, off_ns=115, in_ns=120, out_ns=130, off_state=RUNNABLE)
    spool.close(9, off_ns=130)
    spool.frame(b"\x63\x00" + bytes(20))
    spool.frame(b"\x02\x00" + bytes(4))
    directory = spool.write(
        tmp_path / "spool",
        end_ns=200,
        records=spool.records() + b"cut",
        session={"ring_mib": 16},
        ring_losses={(2, CYCLE): (41, 133)},
        spool_losses={CYCLE: (42, 134)},
        missed_runs=43,
        failed_updates=44,
    )
    report = run(directory, tmp_path / "t.duckdb")
    found = stats(tmp_path / "t.duckdb")
    assert found == {
        "ring_full cycle": ("dropped", 41, 133),
        "spool_full cycle": ("dropped", 42, 134),
        "probe_runs_skipped": ("dropped", 43, None),
        "filter_full": ("dropped", 44, None),
        "spool_cut": ("truncated", 1, None),
        "spool_damaged": ("dropped", 1, None),
        "spool_unknown": ("dropped", 1, None),
        "thread_start_unseen": ("unmatched", 1, None),
        "wakeup_unseen": ("unmatched", 1, 115),
        "cycle_gap": ("unmatched", 1, 110),
        "cycle_overlap": ("unmatched", 1, 125),
        "thread_end_unseen": ("unmatched", 1, 140),
    }
    assert len(report.losses) == len(found)
    remedies = {loss.code: loss_sentence(loss.code, asdict(loss))[1] for loss in report.losses}
    assert all(remedies.values())
    assert remedies["ring_full"] == "--ring-mib 32"
    assert rows(tmp_path / "t.duckdb", "SELECT name, pid FROM process WHERE process_id = 2") == [
        ("(unknown)", None)
    ]


def test_a_killed_recording_is_told_to_be_one(spool: SpoolBuilder, tmp_path: Path) -> None:
    directory = spool.write(tmp_path / "spool", end_ns=0, records=spool.records()[:-48])
    (directory / "progress.bin").unlink()
    run(directory, tmp_path / "t.duckdb")
    meta = dict(rows(tmp_path / "t.duckdb", "FROM meta"))
    assert (meta["ended_cleanly"], meta["end_ns"]) == ("false", "170")
    assert stats(tmp_path / "t.duckdb") == {
        "counters_gone": ("dropped", None, None),
        "recorder_killed": ("truncated", None, None),
        "thread_cut": ("truncated", 1, 170),
    }


def test_what_is_derived_is_in_the_file(directory: Path, output: Path) -> None:
    run(directory, output, derive=lambda con: con.execute("CREATE VIEW derived AS SELECT 42"))
    assert rows(output, "FROM derived") == [(42,)]


def test_progress_reaches_its_end_in_every_step(directory: Path, output: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    run(directory, output, progress=lambda *call: calls.append(call))
    assert list(dict.fromkeys(step for step, _, _ in calls)) == ["scan", "write", "store", "verify"]
    last = {step: (done, total) for step, done, total in calls}
    assert all(done == total for done, total in last.values())


def test_existing_output_is_refused_without_overwrite(directory: Path, output: Path) -> None:
    output.write_text("precious")
    with pytest.raises(OutputExistsError, match="exists already") as caught:
        run(directory, output)
    assert caught.value.hint is not None
    assert "--force" in caught.value.hint
    assert output.read_text() == "precious"
    assert directory.exists()
    run(directory, output, overwrite=True)
    assert rows(output, "SELECT count(*) FROM thread") == [(2,)]


def untouched(directory: Path, output: Path, before: set[Path]) -> bool:
    return not output.exists() and set(output.parent.iterdir()) == before and directory.exists()


def interrupt(con: duckdb.DuckDBPyConnection) -> None:
    raise KeyboardInterrupt


def interrupt_query(con: duckdb.DuckDBPyConnection) -> None:
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    try:
        # Of many short chunks: DuckDB 1.5 ends a cross product only where all of a chunk is done.
        con.execute("SELECT sum(hash(range) % 7) FROM range(10_000_000_000_000)")
    finally:
        timer.join()


def misuse(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SELECT * FROM nowhere")


@pytest.mark.parametrize(
    ("derive", "message"),
    [
        (interrupt, "interrupted before"),
        (interrupt_query, "interrupted before"),
        (misuse, r"cannot write .*nowhere"),
    ],
)
def test_a_failure_leaves_the_spool_and_nothing_else(
    directory: Path,
    output: Path,
    derive: Derive,
    message: str,
) -> None:
    before = set(output.parent.iterdir())
    with pytest.raises(SpoolError, match=message) as caught:
        run(directory, output, derive=derive)
    assert caught.value.hint == f"rlscope-trace recover {directory} -o SOMEWHERE_ELSE.duckdb"
    assert untouched(directory, output, before)
    run(directory, output)
    assert output.exists()


def test_a_missing_directory_is_told(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match=r"cannot write .*absent") as caught:
        run(directory, tmp_path / "absent" / "trace.duckdb")
    assert caught.value.hint
    assert directory.exists()


@pytest.fixture
def small_disk() -> Iterator[int]:
    """Files can grow to so many bytes and no further: SIGXFSZ is ignored, so writes fail."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    yield 300_000
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, previous)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_leaves_the_spool_and_nothing_else(directory: Path, output: Path) -> None:
    before = set(output.parent.iterdir())
    with pytest.raises(SpoolError, match="cannot write"):
        run(directory, output)
    assert untouched(directory, output, before)


def test_a_wrong_database_is_not_kept(
    directory: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flip(con: duckdb.DuckDBPyConnection) -> None:
        con.execute("UPDATE thread_state_coded SET waker_thread_id = 3 WHERE waker_thread_id = 1")

    before = set(output.parent.iterdir())
    with pytest.raises(VerificationError, match=r"was not written: .*\.waker_thread_id") as caught:
        run(directory, output, derive=flip)
    assert caught.value.hint
    assert untouched(directory, output, before)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            "DELETE FROM thread_state_coded WHERE start_ns = 110",
            "8 rows of .* were written, 7",
        ),
        ("UPDATE thread_state_coded SET cpu = 2 WHERE cpu = 1", r"of thread_state_coded\.cpu"),
        ("UPDATE thread SET lost_ns = 1 WHERE thread_id = 1", r"of thread\.lost_ns"),
        ("DELETE FROM clock", "1 rows of clock were written, 0 are stored"),
        # Sums, minima and maxima stay the same in all that follow.
        (
            "UPDATE thread_state_coded SET end_ns = end_ns"
            " + CASE WHEN thread_id = 1 THEN 1 ELSE -1 END WHERE start_ns IN (110, 120)",
            "the states of 2 threads do not add up",
        ),
        (
            "UPDATE thread_state_coded SET start_ns = start_ns"
            " + CASE start_ns WHEN 160 THEN -1 ELSE 1 END WHERE start_ns IN (160, 165)",
            "out of order",
        ),
    ],
)
def test_verification_finds_what_differs(
    directory: Path, output: Path, damage: str, message: str
) -> None:
    with pytest.raises(VerificationError, match=message):
        run(directory, output, derive=lambda con: con.execute(damage))


def test_pandas_is_not_needed(directory: Path, output: Path) -> None:
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "from pathlib import Path\n"
        "from rlscope_trace.ingest.store.finalise import finalise\n"
        "from rlscope_trace.spool.directory import open_spool\n"
        "with finalise(open_spool(Path(sys.argv[1])), Path(sys.argv[2]), overwrite=False,\n"
        "              progress=lambda *call: None):\n"
        "    pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(directory), str(output)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert output.exists()
