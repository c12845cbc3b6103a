"""`rlscope-trace validate`: its arguments, and single runs that need no recorder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.sentences import quality_sentence
from rlscope_trace.cli.validate import check_operation
from rlscope_trace.errors import CommandNotFoundError, TracerError, UsageError
from rlscope_trace.record.validate.failures import ProgramFailedError
from rlscope_trace.record.validate.runs import Runner, read_report
from rlscope_trace.record.validate.timers import read_timers
from rlscope_trace.record.validate.trace_figures import BucketTime, TraceFigures, read_figures
from validated_runs import runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlscope_trace", "validate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no program to run"),
        (["python", "train.py"], "no program to run"),
        (["--runs", "0", "--", "true"], "--runs"),
        (["--max-bias", "-1", "--", "true"], "--max-bias"),
        (["--max-bias", "inf", "--", "true"], "--max-bias inf"),
        (["--format", "xml", "--", "true"], "--format"),
        (["-o", "x.duckdb", "--", "true"], "-o is not for validate"),
        (["--duration=3", "--", "true"], "--duration=3 is not for validate"),
        (["-d3", "--", "true"], "-d3 is not for validate"),
        (["--keep", ".", "--", "true"], ". exists"),
        (["--timers", "README.md/timers", "--", "true"], "README.md is no folder"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_a_hint(arguments: list[str], words: str) -> None:
    reported = command(*arguments)
    assert reported.returncode == 2
    assert reported.stdout == ""
    first, second = reported.stderr.splitlines()
    assert first.startswith("error: ")
    assert words in first
    assert second.startswith("hint: ")


def test_a_file_of_timers_that_exists_is_not_removed(tmp_path: Path) -> None:
    mine = tmp_path / "timers"
    mine.write_text("mine")
    reported = command("--timers", mine, "--", "true")
    assert reported.returncode == 2
    assert f"{mine} exists" in reported.stderr
    assert mine.read_text() == "mine"


def test_a_run_takes_what_the_os_kernel_accounts(tmp_path: Path) -> None:
    run = runner(
        tmp_path,
        "import os, time\n"
        "if os.fork() == 0: time.sleep(0.001)\n"
        "else: os.wait()\n"
        "while time.process_time() < 0.2: pass\n",
    ).untraced()
    # Both of them spun, and were waited for.
    assert run.cpu_ns >= 2 * 200_000_000 * 0.9
    assert run.wall_ns >= 200_000_000
    assert run.timers_ns == {}
    assert not run.left_running


ORPHAN = """
import os, signal, sys
reading, writing = os.pipe()
if os.fork():
    os.read(reading, 1)
elif os.fork():
    pass
else:
    os.write(writing, b"1")
    {does}
"""


def test_processes_that_nobody_waits_for_are_counted_when_they_end(tmp_path: Path) -> None:
    spin = "import time\n    while time.process_time() < 0.3: pass"
    run = runner(tmp_path, ORPHAN.format(does=spin)).untraced()
    assert run.cpu_ns >= 300_000_000 * 0.9
    assert not run.left_running


def test_processes_that_do_not_end_are_told_of_and_left_alone(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    wait = f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n    signal.pause()"
    program = ORPHAN.format(does=wait)
    try:
        assert runner(tmp_path, program).untraced().left_running
    finally:
        os.kill(int(pid_file.read_text()), signal.SIGKILL)


def test_a_run_that_fails_shows_its_code_and_its_last_words(tmp_path: Path) -> None:
    program = (
        "import sys; print('x' * 9000, 'loading', sep='\\n', file=sys.stderr);"
        " sys.exit('no such data set')"
    )
    with pytest.raises(ProgramFailedError, match=r"exit code 1 in an untraced run") as failure:
        runner(tmp_path, program).untraced()
    assert str(failure.value).endswith("x\n  loading\n  no such data set")
    assert len(str(failure.value)) < 500
    assert "it must end by itself with 0" in str(failure.value.hint)


def test_a_run_that_is_killed_names_the_signal(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailedError, match="killed by signal 9"):
        runner(tmp_path, "import os; os.kill(os.getpid(), 9)").untraced()


def test_a_program_that_is_not_there_is_told_as_by_record(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(CommandNotFoundError, match="no-such-program: command not found"):
        Runner(["no-such-program"], (), tmp_path / "run").untraced()


def test_the_program_has_signals_as_without_us_and_no_input(tmp_path: Path) -> None:
    program = (
        "import signal, sys\n"
        "names = ('SIGINT', 'SIGTERM', 'SIGXFSZ')\n"
        "sys.exit(sys.stdin.read() or 0 if signal.getsignal(signal.SIGINT) is"
        " signal.default_int_handler and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL"
        " else 'wrong signals')"
    )
    assert runner(tmp_path, program).untraced().cpu_ns > 0


def test_timers_of_one_operation_add_up_and_old_ones_are_gone(tmp_path: Path) -> None:
    timers = tmp_path / "timers"
    made = runner(
        tmp_path,
        "import os\n"
        "with open(os.environ['RLSCOPE_TIMERS'], 'a') as file:\n"
        "    for operation, ns in (('a', 1), ('b', 5), ('a', 2)):\n"
        '        file.write(f\'{{"operation": "{operation}", "cpu_ns": {ns}}}\\n\')\n',
        timers=timers,
    )
    assert made.untraced().timers_ns == {"a": 3, "b": 5}
    timers.write_text("of another run")
    assert made.untraced().timers_ns == {"a": 3, "b": 5}
    assert not timers.exists()


@pytest.mark.parametrize(
    "line", ["x", "[]", '{"operation": "a"}', '{"operation": 1, "cpu_ns": 1}',
             '{"operation": "a", "cpu_ns": -1}', '{"operation": "a", "cpu_ns": 1.5}',
             '{"operation": "a", "cpu_ns": true}', f'{{"operation": "a", "cpu_ns": {10**30}}}',
             "[" * 100_000],
)  # fmt: skip
def test_a_line_that_is_no_timer_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "timers"
    path.write_text('{"operation": "a", "cpu_ns": 1}\n' + line + "\n")
    with pytest.raises(TracerError, match="timers, line 2 is no timer"):
        read_timers(path)


def test_no_timers_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TracerError, match="wrote no timers"):
        read_timers(tmp_path / "timers")


def test_an_interrupt_reaches_the_program_which_may_end_by_itself(
    tmp_path: Path, poll_until: Callable[..., object]
) -> None:
    (tmp_path / "run").mkdir()
    program = (
        "import pathlib, signal, sys\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "try:\n"
        "    (here / 'begun').touch()\n"
        "    signal.pause()\n"
        "except KeyboardInterrupt:\n"
        "    (here / 'saved').touch()\n"
    )
    driver = (
        "import pathlib, sys\n"
        "from rlscope_trace.record.validate.runs import Runner\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "try:\n"
        "    Runner([sys.executable, '-c', sys.argv[2], str(here)], (), here / 'run').untraced()\n"
        "except KeyboardInterrupt:\n"
        "    (here / 'told').touch()\n"
    )
    # Interrupts may be ignored here, as in a job in the background: then Python would not see any.
    process = subprocess.Popen(
        [sys.executable, "-c", driver, str(tmp_path), program],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    poll_until((tmp_path / "begun").exists, what="the program runs")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(30) == 0
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "told").exists()


VIEWS = """
CREATE TABLE process (process_id INTEGER, pid INTEGER, parent_process_id INTEGER);
INSERT INTO process VALUES (1, 10, NULL), (2, 11, 1), (3, 12, 2);
CREATE TABLE breakdown_corrected (
  process_id INTEGER, operation VARCHAR, bucket VARCHAR, on_cpu BOOLEAN, time_ns BIGINT,
  overhead_ns BIGINT);
INSERT INTO breakdown_corrected VALUES
  (1, '(unannotated)', 'python', TRUE, 1000, 100),
  (2, 'learn', 'python', TRUE, 500, 50),
  (2, 'learn', 'python', TRUE, 500, 8),
  (2, 'learn', 'sleeping', FALSE, 900, 0),
  (2, 'learn', 'lost', NULL, 700, 0),
  (2, 'learn', 'python', TRUE, 300, 4),
  (3, 'learn', 'python', TRUE, 200, 2);
CREATE TABLE overhead_wall (process_id INTEGER, exposed_ns BIGINT);
INSERT INTO overhead_wall VALUES (1, 9), (2, 50), (3, 2);
CREATE TABLE probe_hits (process_id INTEGER, event VARCHAR, part VARCHAR, hits BIGINT);
INSERT INTO probe_hits VALUES
  (1, 'switch', 'outside', 1000), (2, 'switch', 'outside', 2), (3, 'switch', 'outside', 1),
  (2, 'call', 'inside', 1), (2, 'call', 'outside', 1);
CREATE TABLE operation_tree (name VARCHAR, instances BIGINT);
INSERT INTO operation_tree VALUES ('learn', 3), ('learn', 4), ('(unannotated)', NULL);
CREATE TABLE trace_stat (kind VARCHAR, code VARCHAR, count BIGINT);
CREATE TABLE calibration (
  event VARCHAR, part VARCHAR, mean_ns DOUBLE, low_ns DOUBLE, high_ns DOUBLE, used BOOLEAN,
  quality VARCHAR, code VARCHAR, subject VARCHAR, detail VARCHAR, numbers DOUBLE[]);
INSERT INTO calibration VALUES
  ('switch', 'outside', 10, 9, 12, TRUE, 'ok', NULL, NULL, NULL, NULL),
  ('switch', 'outside', 9, 0, 99, FALSE, 'uncertain', 'zero', NULL, NULL, NULL),
  ('call', 'inside', 10, 9, 12, TRUE, 'uncertain', 'zero', NULL, NULL, NULL),
  ('call', 'outside', 10, 7, 14, TRUE, 'uncertain', 'zero', NULL, NULL, NULL),
  ('range', 'outside', 10, 7, 14, TRUE, 'uncertain', 'wide', NULL, NULL, NULL);
"""


def test_a_trace_is_read_without_what_started_the_program() -> None:
    with duckdb.connect() as connection:
        connection.execute(VIEWS)
        found = read_figures(connection, pid=11, words=quality_sentence)
        connection.execute("INSERT INTO trace_stat VALUES ('dropped', 'ring', NULL)")
        assert read_figures(connection, pid=11, words=quality_sentence).lost == 1
    assert found.bucket_times == (
        BucketTime("learn", "python", True, 1300, 62),
        BucketTime("learn", "python", False, 200, 2),
    )
    assert found.overhead_ns == 64
    # Parts of one kind of event err together, kinds apart: 3 and 1 + 3 below, 6 and 2 + 4 above.
    assert found.interval_ns == pytest.approx((64 - 5, 64 + 72**0.5))
    assert found.wall_overhead_ns == 50
    assert found.instances == {"learn": 7}
    assert found.lost == 0
    assert found.warnings == {"call": quality_sentence("uncertain", "zero")}


def test_a_trace_without_costs_cannot_be_corrected() -> None:
    with duckdb.connect() as connection:
        connection.execute(VIEWS)
        connection.execute(
            "UPDATE breakdown_corrected SET overhead_ns = NULL WHERE overhead_ns = 4"
        )
        with pytest.raises(TracerError, match="does not tell what recording cost") as failure:
            read_figures(connection, pid=11, words=quality_sentence)
    assert failure.value.hint == "rlscope-trace calibrate"


def test_an_operation_that_is_not_there_is_named_with_those_that_are() -> None:
    figures = TraceFigures((), 0, 0, 0, {"learn": 1, "act": 2}, 0, {})
    check_operation(None, figures)
    check_operation("learn", figures)
    with pytest.raises(UsageError, match="no operation 'lern'") as failure:
        check_operation("lern", figures)
    assert failure.value.hint == "--per one of: act, learn"


def test_timers_that_are_no_file_of_the_program_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET\n")
    timers = tmp_path / "timers"
    timers.symlink_to(secret)
    with pytest.raises(TracerError, match="cannot read the timers") as caught:
        read_timers(timers)
    assert "SECRET" not in str(caught.value)
    timers.unlink()
    os.mkfifo(timers)
    with pytest.raises(TracerError, match="no regular file"):
        read_timers(timers)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_report_that_the_program_put_there_is_not_read(tmp_path: Path, kind: str) -> None:
    secret, report = tmp_path / "secret", tmp_path / "untraced"
    secret.write_text("SECRET " * 5)
    if kind == "link":
        report.symlink_to(secret)
    else:
        os.mkfifo(report)
    with pytest.raises(TracerError, match="is not what a run writes there") as caught:
        read_report(report)
    assert "SECRET" not in str(caught.value)
