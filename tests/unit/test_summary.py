"""The summary of a trace that fits on one screen, in every format."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers import csv as csv_renderer
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text as text_renderer
from rlscope_analysis.renderers.values import json_value
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.summary import queries
from rlscope_analysis.summary.answer import answer_of
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.summary.values import Latency, StateTimes, Summary, Switches
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli.summarize import summarize as command
from rlscope_trace.errors import OutputExistsError, UsageError
from trace_builder import (
    INTERRUPT,
    OUTSIDE,
    UNKNOWN,
    TraceBuilder,
    blocked,
    lost,
    preempted,
    run,
    sleep,
    woken,
)

MS = 1_000_000
META: dict[str, str | None] = {
    "schema_version": str(SCHEMA_VERSION),
    "tool_version": "0.1.0",
    "argv": json.dumps(["rlscope-trace", "--", "python", "train.py"]),
    "host": "box",
    "kernel": "6.18.44",
    "cpus_allowed": json.dumps([0, 1, 2, 5]),
    "loader": "libbpf",
    "backends": json.dumps(
        [{"backend": "btf", "result": "refused"}, {"backend": "tracefs", "result": "taken"}]
    ),
    "ended_cleanly": "true",
}


def two_processes(path: Path) -> TraceBuilder:
    """Build 3 threads: main and helper of pid 100, and one of pid 200 that runs longest."""
    builder = TraceBuilder(path, meta=dict(META))
    parent = builder.process(pid=100, name="python", command="python train.py", end_ns=20 * MS)
    child = builder.process(pid=200, name="env", parent=parent, exit_code=0, end_ns=30 * MS)
    builder.clock(ts_ns=5, realtime_ns=1_700_000_000_000_000_005)
    builder.thread(
        parent,
        tid=100,
        name="main",
        states=[
            run(2 * MS), sleep(3 * MS), woken(4_000, by=3), run(1 * MS, cpu=1), preempted(6_000),
            run(1 * MS, cpu=1),
        ],
    )  # fmt: skip
    builder.thread(parent, tid=101, name="helper", states=[blocked(5 * MS)])
    builder.thread(
        child,
        tid=200,
        name="env",
        states=[
            woken(1_000, by=1), run(9 * MS), sleep(20 * MS), woken(2_000, by=INTERRUPT),
            run(997_000), sleep(1), woken(3_000, by=INTERRUPT), run(1),
        ],
    )  # fmt: skip
    return builder


def summary_of(builder: TraceBuilder) -> Summary:
    with open_trace(builder.write()) as trace:
        return summarize(trace)


def render_table(
    summary: Summary,
    *,
    rows: int | None,
    top: int,
    width: int,
    is_terminal: bool,
) -> str:
    found = answer_of(summary, top=top)
    return text_renderer.render(found, limit=rows, width=width, is_terminal=is_terminal)


def render_json(summary: Summary, *, top: int) -> str:
    return "".join(json_renderer.render(answer_of(summary, top=top)))


def render_csv(summary: Summary) -> str:
    return "".join(csv_renderer.render(answer_of(summary, top=1).data))


def notes_of(summary: Summary) -> tuple[str, ...]:
    return tuple(map(sentence_of, summary.notes))


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    return summary_of(two_processes(tmp_path / "trace.duckdb"))


def test_threads_and_totals_by_hand(summary: Summary) -> None:
    env, python = summary.processes
    assert [(p.pid, [t.name for t in p.threads]) for p in summary.processes] == [
        (200, ["env"]),
        (100, ["main", "helper"]),
    ]
    main = python.threads[0].measures
    assert main.times == StateTimes(4 * MS, 10_000, 3 * MS, 0, 0, 7_010_000)
    assert main.switches == Switches(2, 1, 1, 0, 1)
    assert main.latency == Latency(2, 4_000, 6_000, 6_000)
    assert python.measures.times == StateTimes(4 * MS, 10_000, 3 * MS, 5 * MS, 0, 12_010_000)
    assert env.measures.switches == Switches(2, 2, 0, 0, 0)
    assert env.measures.latency == Latency(3, 2_000, 3_000, 3_000)
    assert summary.total.times == StateTimes(13_997_001, 16_000, 23_000_001, 5 * MS, 0, 42_013_002)
    assert summary.total.switches == Switches(4, 3, 1, 0, 1)
    # Over the five waits 1, 2, 3, 4 and 6 us, not a mean of the threads' quantiles.
    assert summary.total.latency == Latency(5, 3_000, 6_000, 6_000)
    assert summary.total.wakeups == 4
    assert [(w.kind, w.tid, w.wakeups) for w in summary.total.wakers] == [
        ("interrupt", None, 2),
        ("thread", 100, 1),
        ("thread", 200, 1),
    ]
    assert summary.duration_ns == 30_003_002
    assert summary.started_realtime_ns == 1_700_000_000_000_000_000
    assert summary.is_complete
    assert summary.losses == summary.notes == ()


def test_table_shows_the_numbers(summary: Summary) -> None:
    table = render_table(summary, rows=20, top=3, width=160, is_terminal=False)
    lines = [" ".join(line.split()) for line in table.splitlines()]
    assert "command rlscope-trace -- python train.py" in lines
    assert "host box, Linux 6.18.44, CPUs 0-2,5" in lines
    assert "started 2023-11-14 22:13:20 UTC" in lines
    assert "traced 2 processes, 3 threads" in lines
    assert "capture loader libbpf; btf refused, then tracefs taken" in lines
    assert "losses nothing lost" in lines
    assert "main 100 4.00 57.1 0.01 0.1 3.00 42.8 0.00 0.0 7.01" in lines
    assert "python (pid 100) 4.00 33.3 0.01 0.1 3.00 25.0 5.00 41.6 12.01" in lines
    assert "whole trace 14.00 33.3 0.02 0.0 23.00 54.7 5.00 11.9 42.01" in lines
    assert "main 100 2 1 1 1 4.0 6.0 6.0 1 env/200 100.0 %" in lines
    assert "helper 101 0 0 0 0 - - - 0" in lines
    assert "env 200 2 2 0 0 2.0 3.0 3.0 3 interrupt 66.7 %, main/100 33.3 %" in lines
    assert "lost" not in " ".join(lines).replace("nothing lost", "")
    assert "\x1b" not in table
    assert not any(line.startswith("warning") for line in lines)


@pytest.mark.parametrize("width", [20, 80, 120, 200])
def test_table_never_cuts_a_number(summary: Summary, width: int) -> None:
    table = render_table(summary, rows=None, top=3, width=width, is_terminal=True)
    plain = " ".join(table.split())
    for number in ("14.00", "42.01", "23.00", "interrupt 66.7 %", "main/100 33.3 %"):
        assert number in plain
    assert "…" not in table
    assert "\x1b[1m" in table, "totals are bold on a terminal"


def test_hidden_threads_are_counted_and_totals_keep_them(summary: Summary) -> None:
    table = render_table(summary, rows=1, top=3, width=160, is_terminal=False)
    assert "... 1 more process with 2 threads, 28.6 % of running time (--all)" in table
    assert "main" not in table.replace("main/100", "")
    whole = [line for line in table.splitlines() if line.startswith("whole trace")]
    assert "42.01" in whole[0]
    two = render_table(summary, rows=2, top=3, width=160, is_terminal=False)
    assert "  ... 1 more thread, 0.0 % of running time (--all)" in two


def test_losses_and_cut_recording_come_first(tmp_path: Path) -> None:
    builder = two_processes(tmp_path / "trace.duckdb")
    builder.meta |= {"ended_cleanly": "false", "recovered": "true"}
    builder.loss(count=1204, cpu=3)
    builder.loss("operation_block_cut", count=None)
    builder.thread(1, tid=102, states=[run(5), lost(7), woken(1, by=UNKNOWN), run(1)])
    summary = summary_of(builder)
    lines = render_table(summary, rows=9, top=3, width=160, is_terminal=False).splitlines()
    assert lines[0].startswith("warning: the recording of this trace was cut off")
    losses = lines.index("losses     dropped: 1,204 records, ring cpu 3 cycle")
    assert lines[losses + 1].strip() == "hint: --ring-mib 64"
    assert lines[losses + 2] == (
        "losses     truncated: records, not known how many, operations: a block was not written"
        " to its end"
    )
    notes = [line for line in lines if line.startswith("note")]
    assert "rlscope-trace recover" in notes[0]
    assert "wakeups without a known waker: 1;" in notes[1]
    assert "threads that lack part of their states: 1;" in notes[2]
    assert any(" lost " in line and " lifetime" in line for line in lines)
    assert any(" unknown " in line and " migrations " in line for line in lines)
    assert summary.total.times.lost_ns == 7
    assert summary.total.times.is_balanced


def test_what_was_not_measured_is_told_once_for_each_reason(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("gpu_activity", measured=False, fact=Fact("cuda_not_initialised"))
    for pid in (1, 2, 3):
        process = builder.process(pid=pid, name="env")
        builder.thread(process, states=[run(5)])
        late = Fact("shim_not_loaded", detail="attached late")
        builder.coverage("operation", process_id=process, measured=False, fact=late)
    trainer = builder.process(pid=4, name="train")
    static = Fact("program_static", "train.sh")
    builder.coverage("operation", process_id=trainer, measured=False, fact=static)
    builder.coverage("operation", process_id=builder.process(pid=5))
    builder.coverage("operation", measured=False)
    expected = (
        "not measured: gpu_activity of all processes: CUDA was not initialised, as far as the"
        " recorder heard",
        "not measured: operation of all other processes",
        "not measured: operation of env (pid 1) and 2 more processes: attached late",
        "not measured: operation of train (pid 4): train.sh is statically linked: no library can be"
        " loaded into it",
    )
    summary = summary_of(builder)
    assert notes_of(summary) == expected
    table = render_table(summary, rows=9, top=3, width=160, is_terminal=False)
    assert [line for line in table.splitlines() if line.startswith("note")] == [
        f"note       {note}" for note in expected
    ]


def test_operations_are_told_in_short(tmp_path: Path) -> None:
    """Two threads, 70 % of whose time is in an operation; a third has none."""
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("operation")
    process = builder.process(pid=1)
    for _ in range(2):
        thread = builder.thread(process, states=[run(6 * MS), sleep(4 * MS)])
        builder.operation(thread, 0, 7 * MS, "iteration")
        builder.operation(thread, 1 * MS, 2 * MS, "learn")
    builder.thread(process, states=[run(10 * MS)])
    summary = summary_of(builder)
    table = render_table(summary, rows=9, top=3, width=160, is_terminal=False)
    lines = [" ".join(line.split()) for line in table.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("outermost operations"))
    assert lines[at + 2 : at + 5] == [
        "iteration nvtx 14.000 70.0 12.000 0.000 2.000",
        "(unannotated) - 6.000 30.0 0.000 0.000 6.000",
        "total 20.000 100.0 12.000 0.000 8.000",
    ]
    document = json.loads(render_json(summary, top=1))
    assert [row["time_ns"] for row in document["views"]["operation-top"]] == [14 * MS, 6 * MS]


def test_a_range_that_is_called_unannotated_is_an_operation(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("operation")
    thread = builder.thread(builder.process(pid=1), states=[run(12 * MS)])
    builder.operation(thread, 0, 6 * MS, "(unannotated)")
    builder.operation(thread, 6 * MS, 7 * MS, "learn")
    document = json.loads(render_json(summary_of(builder), top=1))
    rows = document["views"]["operation-top"]
    assert [(row["operation"], row["source"], row["time_ns"]) for row in rows] == [
        ("(unannotated)", "nvtx", 6 * MS), ("learn", "nvtx", MS), ("(unannotated)", None, 5 * MS),
    ]  # fmt: skip


def test_json_has_a_line_for_each_thread_and_all_facts(tmp_path: Path) -> None:
    builder = two_processes(tmp_path / "trace.duckdb")
    builder.loss()
    with open_trace(builder.write()) as trace:
        answer = answer_of(summarize(trace), top=3)
    shown = "".join(json_renderer.render(answer))
    document = json.loads(shown)
    assert document == json_value(dict(answer.facts))
    lines = [json.loads(line.rstrip(",")) for line in shown.splitlines() if '"tid"' in line[:30]]
    assert lines == [thread for process in document["processes"] for thread in process["threads"]]
    assert len(lines) == 3


def test_the_header_says_which_interval_of_time_was_asked_for(tmp_path: Path) -> None:
    path = two_processes(tmp_path / "trace.duckdb").write()
    with open_trace(path, start="2ms", end="2500001us") as trace:
        summary = summarize(trace)
    table = render_table(summary, rows=9, top=3, width=160, is_terminal=False)
    assert "\nwindow     0.002 s to 2.500001 s, since the start of the trace\n" in table
    assert json.loads(render_json(summary, top=1))["window"] == {
        "from_ns": 2 * MS, "to_ns": 2_500_001_000,
    }  # fmt: skip
    with open_trace(path) as trace:
        whole = summarize(trace)
    assert "window" not in render_table(whole, rows=9, top=3, width=160, is_terminal=False)
    assert json.loads(render_json(whole, top=1))["window"] is None


def test_a_trace_that_does_not_add_up_is_called_faulty(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(5), sleep(5)])
    builder._threads[0] = (*builder._threads[0][:4], 11, "w", True, 0, None)
    builder._states.append((1, 3, 4, "running", 0, None, None))
    assert notes_of(summary_of(builder)) == (
        "this trace is faulty, please report it: threads whose states do not add up to their"
        " lifetime: 0; intervals out of order: 1",
    )


def test_a_state_outside_its_thread_does_not_add_up(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(5), sleep(5)])
    builder._states.append((1, 10, 14, "sleeping", 0, None, None))
    summary = summary_of(builder)
    assert summary.total.times == StateTimes(5, 0, 9, 0, 0, 10)
    assert "threads whose states do not add up to their lifetime: 1;" in notes_of(summary)[0]


def test_states_that_a_window_cuts_and_that_cross_are_those_of_thread_time(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(100)])
    builder._states.append((1, 5, 60, "sleeping", 0, None, None))
    path = builder.write()
    with open_trace(path, start="20ns", end="50ns") as trace:
        summary = summarize(trace)
        columns = "running_ns, runnable_ns, sleeping_ns, blocked_ns, lost_ns, lifetime_ns"
        of_view = trace.sql(f"SELECT {columns} FROM thread_time").fetchall()
    assert [StateTimes(*row) for row in of_view] == [summary.total.times]
    assert summary.total.times == StateTimes(30, 0, 30, 0, 0, 30)
    assert "lifetime: 1; intervals out of order: 1" in notes_of(summary)[0]


@pytest.mark.parametrize("processes", [0, 1])
def test_states_that_were_not_measured_have_no_total(tmp_path: Path, processes: int) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("thread_state", measured=False)
    for _ in range(processes):
        builder.thread(builder.process(pid=1, end_ns=9), states=[], end_ns=9)
    summary = summary_of(builder)
    total = json.loads(render_json(summary, top=3))["total"]
    assert set(total) >= {"times", "switches", "wakeups"}
    assert set(total.values()) == {None}
    assert "whole trace" not in render_table(summary, rows=9, top=3, width=99, is_terminal=False)


@pytest.mark.parametrize("window", [(None, None), ("3ns", "21ns")])
def test_times_from_the_overlaps_are_those_of_thread_time(
    window: tuple[str | None, str | None], tmp_path: Path
) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    process, unmeasured = builder.process(pid=1), builder.process(pid=2)
    builder.coverage("thread_state")
    builder.coverage("thread_state", process_id=unmeasured, measured=False)
    states = [run(5), sleep(3), woken(2, by=1), run(7), preempted(1), lost(4), blocked(6)]
    first = builder.thread(process, states=states)
    builder.operation(first, 2, 20, "learn")
    builder.thread(None, states=[blocked(9)], start_ns=1)
    builder.thread(process, states=[lost(9)])
    builder.thread(unmeasured, states=[], end_ns=9)
    start, end = window
    with open_trace(builder.write(), start=start, end=end) as trace:
        of_states, of_overlaps = (
            sorted(trace.connection.execute(query).fetchall())
            for query in (queries.THREADS_SQL, queries.SWEPT_THREADS_SQL)
        )
        assert trace.connection.execute(queries.STATE_FAULTS_SQL).fetchall() == [(False,)]
    assert of_overlaps == of_states
    assert [row[0] for row in of_states] == [1, 2, 3]
    assert all(sum(row[7:12]) == row[12] for row in of_states), "conservation"


def test_empty_trace_and_nulls(tmp_path: Path) -> None:
    empty = summary_of(TraceBuilder(tmp_path / "empty.duckdb"))
    assert empty.processes == ()
    assert empty.duration_ns is None
    table = render_table(empty, rows=20, top=3, width=80, is_terminal=False)
    assert "not known: the trace holds no thread" in table
    assert json.loads(render_json(empty, top=3))["total"]["run_queue_latency"]["p50_ns"] is None
    assert len(render_csv(empty).splitlines()) == 1

    builder = TraceBuilder(tmp_path / "nulls.duckdb")
    builder.meta["argv"] = None
    builder.process(pid=None, name=None, start_ns=None)
    builder.thread(1, tid=None, name=None, states=[run(5)], ended=None)
    builder.thread(None, tid=None, name=None, states=[woken(5, by=OUTSIDE), run(1)])
    builder.thread(7, tid=None, name=None, states=[woken(5, by=99), run(1)])
    nulls = summary_of(builder)
    assert [p.process_id for p in nulls.processes] == [1, None, 7]
    assert nulls.total.times.lifetime_ns == 17
    table = render_table(nulls, rows=20, top=3, width=80, is_terminal=False)
    assert "(no name) (pid not known)" in table
    assert "(process not known)" in table
    assert "?/? 100.0 %" in table
    assert len(render_csv(nulls).splitlines()) == 4


def test_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1, name="[b]\x1b[2J"), states=[run(5)], name="a\nb")
    table = render_table(summary_of(builder), rows=9, top=3, width=80, is_terminal=False)
    assert "[b]\\x1b[2J (pid 1)" in table
    assert "a\\nb" in table


def test_json_holds_every_thread_in_nanoseconds(summary: Summary) -> None:
    document = json.loads(render_json(summary, top=1))
    assert document["meta"]["loader"] == "libbpf"
    assert document["duration_ns"] == 30_003_002
    threads = [t for p in document["processes"] for t in p["threads"]]
    assert [t["tid"] for t in threads] == [200, 100, 101]
    for row in (*threads, *document["processes"], document["total"]):
        times = dict(row["times"])
        assert times.pop("lifetime_ns") == sum(times.values())
        assert len(row["wakers"]) <= 1
    assert threads[2]["run_queue_latency"] == {
        "waits": 0, "p50_ns": None, "p99_ns": None, "max_ns": None,
    }  # fmt: skip
    assert threads[1]["wakers"] == [
        {"kind": "thread", "thread_id": 3, "pid": 200, "tid": 200, "name": "env", "wakeups": 1}
    ]


def test_csv_has_one_row_per_thread(summary: Summary) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(summary))))
    assert [row["tid"] for row in rows] == ["200", "100", "101"]
    assert rows[1]["running_ns"] == str(4 * MS)
    assert rows[1]["run_queue_p99_ns"] == "6000"
    assert rows[1]["top_waker_thread_id"] == "3"
    assert rows[2]["run_queue_p99_ns"] == rows[2]["top_waker_kind"] == ""
    assert sum(int(row["lifetime_ns"]) for row in rows) == summary.total.times.lifetime_ns


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@pytest.fixture
def app() -> Typer:
    app = Typer()
    app.command()(command)
    return app


def test_command_prints_every_format(app: Typer, runner: CliRunner, tmp_path: Path) -> None:
    path = str(two_processes(tmp_path / "trace.duckdb").write())
    assert "what to try first" not in runner.invoke(app, [path, "--view", "cpu"]).stdout
    assert "whole trace" not in runner.invoke(app, [path]).stdout
    assert "whole trace" in runner.invoke(app, [path, "--all"]).stdout
    assert (
        json.loads(runner.invoke(app, [path, "--format", "json"]).stdout)["schema_version"]
        == SCHEMA_VERSION
    )
    assert runner.invoke(app, [path, "--format", "csv"]).stdout.count("\n") == 4
    assert "... 1 more" in runner.invoke(app, [path, "--all", "--rows", "1"]).stdout
    assert "... 1 more" not in runner.invoke(app, [path, "--all"]).stdout
    assert runner.invoke(app, [path, "--format", "xml"]).exit_code == 2


def test_command_shows_operations(app: Typer, runner: CliRunner, tmp_path: Path) -> None:
    builder = two_processes(tmp_path / "trace.duckdb")
    builder.coverage("thread_state")
    builder.coverage("operation")
    builder.operation(1, 0, 5 * MS, "learn")
    path = str(builder.write())
    table = runner.invoke(app, [path, "--by", "operation", "--per", "learn"]).stdout
    assert "one learn (nvtx): 1 in python (pid 100)" in table
    assert "lifetime of 1 thread with operations" in table
    assert table == runner.invoke(app, [path, "--view", "operation", "--per", "learn"]).stdout
    arguments = [path, "--by", "operation", "--from", "1ms"]
    assert "window     0.001 s to its end" in runner.invoke(app, arguments).stdout
    assert json.loads(runner.invoke(app, [*arguments, "--format", "json"]).stdout)["window"]
    assert runner.invoke(app, [*arguments, "--format", "csv"]).stdout.startswith("scope,process_id")
    assert "window     " in runner.invoke(app, [path, "--view", "cpu", "--from", "1ms"]).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--by", "operation", "--view", "cpu"], "exclude each other"),
        (["--view", "cpu", "--per", "learn"], "--per says what an iteration is"),
    ],
)
def test_options_that_do_not_go_together_are_an_error(
    options: list[str], message: str, app: Typer, runner: CliRunner, tmp_path: Path
) -> None:
    failure = runner.invoke(app, [str(tmp_path / "no.duckdb"), *options]).exception
    assert isinstance(failure, UsageError)
    assert message in str(failure)
    assert failure.hint


def test_command_writes_a_file_once(app: Typer, runner: CliRunner, tmp_path: Path) -> None:
    path = str(two_processes(tmp_path / "trace.duckdb").write())
    output = tmp_path / "summary.csv"
    arguments = [path, "--format", "csv", "-o", str(output)]
    first = runner.invoke(app, arguments)
    assert (first.exit_code, first.stdout) == (0, "")
    text = output.read_text()
    assert text.count("\n") == 4
    second = runner.invoke(app, arguments)
    assert isinstance(second.exception, OutputExistsError)
    assert "--force" in (second.exception.hint or "")
    output.write_text("old")
    assert runner.invoke(app, [*arguments, "--force"]).exit_code == 0
    assert output.read_text() == text


@pytest.mark.parametrize("module", ["summarize", "sql"])
def test_a_reader_that_leaves_early_ends_it_quietly(module: str, tmp_path: Path) -> None:
    path = two_processes(tmp_path / "trace.duckdb").write()
    query = ", 'SELECT i FROM range(1000000) AS r(i)', '--format', 'csv'" if module == "sql" else ""
    program = (
        f"import typer; from rlscope_trace.cli.{module} import {module} as command\n"
        f"app = typer.Typer(); app.command()(command); app(['{path}'{query}])"
    )
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")
