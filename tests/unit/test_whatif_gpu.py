"""`whatif`: replays of GPU streams whose answer is known by construction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rlscope_analysis
from recording import rlscope
from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.answer import what_if
from rlscope_analysis.whatif.changes import Changes, Scaled
from rlscope_analysis.whatif.predict import Replayer
from rlscope_analysis.whatif.read import read
from trace_builder import TIMER, Interval, TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Sequence

US = 1_000
STEPS = 9
LAUNCHES = 4


def made(
    path: Path,
    *,
    kernel: int,
    tail: int,
    with_states: bool = False,
    names: Sequence[str] = ("a", "b", "c", "d"),
    odd_step: Sequence[str] | None = None,
    sync_inside: bool = False,
    by_other: bool = False,
) -> int:
    """Make steps that launch four kernels of `kernel` us, 100 us apart, wait, and go on for `tail`.

    A launch takes 20 us and comes through after 5; after the wait its call takes 10 us more.
    Returns how long a step takes, in us.
    """
    builder = TraceBuilder(path)
    process = builder.process(pid=7, name="python")
    over = max(400, 5 + LAUNCHES * kernel, 305 + kernel)
    length = over + 10 + tail
    states: list[Interval] = []
    number = 0
    for at in range(STEPS):
        start, free = at * length * US, 0
        builder.operation(1, start, start + length * US, "update")
        builder.operation(1, start, start + 400 * US, "forward")
        for which, name in enumerate(odd_step if odd_step and at == 4 else names):
            number += 1
            call = 100 * which
            begun = max(free, call + 5)
            free = begun + kernel
            builder.cuda_call(1, start + call * US, start + (call + 20) * US, correlation_id=number)
            builder.gpu_activity(
                1, start + begun * US, start + free * US, correlation_id=number, name=name
            )
        if by_other:
            builder.cuda_call(2, start + 390 * US, start + 395 * US, correlation_id=1000 + at)
            builder.gpu_activity(1, start + free * US, start + (free + 1) * US, stream_id=9,
                                 correlation_id=1000 + at)  # fmt: skip
        since = 390 if sync_inside else 400
        builder.cuda_call(1, start + since * US, start + (over + 10) * US, kind="sync",
                          name="cudaDeviceSynchronize")  # fmt: skip
        if over > 400:
            states += [run(400 * US), sleep((over - 400) * US - 10), woken(10, by=TIMER)]
            states += [run((10 + tail) * US)]
        else:
            states += [run(length * US)]
    if with_states:
        builder.thread(process, states=states)
    else:
        builder.thread(process, states=[], end_ns=STEPS * length * US)
    if by_other:
        builder.thread(process, states=[], end_ns=STEPS * length * US)
    builder.write()
    return length


@pytest.fixture(scope="module", params=[False, True], ids=["calls", "states"])
def both(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Make steps that the GPU limits (815 us), and some that the CPU does (500 us)."""
    folder = tmp_path_factory.mktemp("gpu")
    for name, kernel, tail, length in (("gpu", 200, 0, 815), ("cpu", 10, 90, 500)):
        path = folder / f"{name}.duckdb"
        assert made(path, kernel=kernel, tail=tail, with_states=request.param) == length
    return folder


def ratios(path: Path, asked: list[Changes]) -> list[float]:
    with rlscope_analysis.open(path) as trace:
        replayer = Replayer(read(trace, "update"))
        assert abs(replayer.fidelity) < 1e-3
        return [replayer.predict(changes).duration_ratio for changes in asked]


def test_the_gpu_is_the_limit(both: Path) -> None:
    expected = [
        # The CPU bound: launches, and the call that waited.
        (Changes(kernels=0), 410),
        (Changes(kernels=0.5), 5 + 4 * 100 + 10),
        (Changes(kernels=2), 5 + 4 * 400 + 10),
        # The GPU bound: nothing but kernels.
        (Changes(graphs=("forward",)), 5 + 4 * 200 + 10),
        (Changes(kernels=0.5, graphs=("forward",)), 5 + 4 * 100 + 10),
        # Launches twice as fast are hidden by the kernels.
        (Changes((Scaled("forward", 0.5),)), 5 + 4 * 200 + 10),
    ]
    found = ratios(both / "gpu.duckdb", [changes for changes, _ in expected])
    assert found == pytest.approx([takes / 815 for _, takes in expected], rel=2e-3)


def test_the_cpu_is_the_limit(both: Path) -> None:
    expected = [
        (Changes(kernels=0), 500),
        # Now the GPU is the limit: the wait ends with the last kernel.
        (Changes(kernels=20), 5 + 4 * 200 + 10 + 90),
        # One launch of 20 us, four kernels in a row, and what comes after.
        (Changes(graphs=("forward",)), 5 + 4 * 10 + 10 + 90),
        (Changes((Scaled("forward", 0.5),)), 300),
    ]
    found = ratios(both / "cpu.duckdb", [changes for changes, _ in expected])
    assert found == pytest.approx([takes / 500 for _, takes in expected], rel=2e-3)


def test_streams_wait_for_each_other(tmp_path: Path) -> None:
    """A kernel of 100 us, and one of 50 us on another stream that has to wait for it."""
    builder = TraceBuilder(tmp_path / "streams.duckdb")
    process = builder.process(pid=7, name="python")
    for at in range(STEPS):
        start, first = at * 200 * US, 10 * at + 1
        builder.operation(1, start, start + 200 * US, "update")
        for number, call, begun, ended, stream in ((0, 0, 5, 105, 7), (3, 40, 105, 155, 8)):
            builder.cuda_call(1, start + call * US, start + (call + 5) * US,
                              correlation_id=first + number)  # fmt: skip
            builder.gpu_activity(1, start + begun * US, start + ended * US, stream_id=stream,
                                 correlation_id=first + number)  # fmt: skip
        for number, call in ((1, 10), (2, 20)):
            builder.cuda_call(1, start + call * US, start + (call + 1) * US, kind="other",
                              name="cudaEvent", correlation_id=first + number)  # fmt: skip
        builder.event_wait(
            1, first + 2, stream_id=8, event_stream_id=7, event_correlation_id=first + 1
        )
        builder.cuda_call(1, start + 50 * US, start + 200 * US, kind="sync",
                          name="cudaDeviceSynchronize")  # fmt: skip
    builder.thread(process, states=[], end_ns=STEPS * 200 * US)
    path = builder.write()
    # The wait ends with the second kernel, and its call takes 45 us more.
    expected = [(5 + 50 + 25 + 45) / 200, (50 + 45) / 200]
    found = ratios(path, [Changes(kernels=0.5), Changes(kernels=0)])
    assert found == pytest.approx(expected, rel=1e-3)


def test_a_wait_for_a_lock_of_the_driver_is_a_delay(tmp_path: Path) -> None:
    """Who has the lock sleeps by a timer: its next turn is no limit of the program."""
    builder = TraceBuilder(tmp_path / "locks.duckdb")
    process = builder.process(pid=7, name="python")
    states, others = [], []
    for at in range(STEPS):
        start = at * 200 * US
        builder.operation(1, start, start + 200 * US, "update")
        builder.operation(1, start, start + 100 * US, "work")
        builder.cuda_call(1, start + 100 * US, start + 120 * US)
        builder.wait(1, start + 102 * US, start + 110 * US, "lock")
        states += [run(102 * US), sleep(8 * US), woken(10, by=2), run(90 * US - 10)]
        others += [sleep(100 * US), woken(10, by=TIMER), run(20 * US - 10, cpu=1), sleep(80 * US)]
    builder.thread(process, states=states)
    builder.thread(process, states=others)
    (found,) = ratios(builder.write(), [Changes((Scaled("work", 0.5),))])
    assert found == pytest.approx(150 / 200, rel=1e-3)


@pytest.mark.parametrize("name", ["alexnet", "triton_example"])
def test_traces_of_the_pytorch_profiler(tmp_path: Path, name: str) -> None:
    """Replayed as they are, and bound by the CPU: what is left are the waits for kernels."""
    path = tmp_path / "kineto.duckdb"
    sample = Path(__file__).parents[1] / f"data/kineto/{name}.json.gz"
    assert rlscope("import", "kineto", str(sample), "-o", str(path)).returncode == 0
    per = "[param|pytorch.model.alex_net|0|0|0|measure|forward]" if name == "alexnet" else None
    with rlscope_analysis.open(path) as trace:
        facts = what_if(trace, Changes(kernels=0), per=per).facts
        # No call overlaps another: in each wait the last activity before it ends at most there.
        ((now, waited),) = trace.connection.execute(
            """
            WITH span AS (
              SELECT min(start_ns) AS since, max(end_ns) AS until
              FROM operation WHERE name = $1
              UNION ALL SELECT min(start_ns), max(end_ns) FROM cuda_call WHERE $1 IS NULL
            ), launched AS (
              SELECT l.start_ns AS call_ns, a.end_ns
              FROM gpu_activity AS a JOIN cuda_call AS l USING (process_id, correlation_id)
              WHERE a.kind <> 'sync'
            ), wait AS (
              SELECT c.start_ns, min(c.end_ns) AS end_ns, max(a.end_ns) AS over
              FROM cuda_call AS c JOIN span ON c.start_ns BETWEEN since AND until
              JOIN launched AS a ON a.call_ns < c.start_ns
              WHERE c.kind = 'sync' GROUP BY c.start_ns
            )
            SELECT (SELECT until - since FROM span WHERE since IS NOT NULL),
              coalesce(sum(greatest(0, least(over, end_ns) - start_ns)), 0) FROM wait
            """,
            [per],
        ).fetchall()
    assert abs(facts["fidelity"]) <= 0.03
    assert facts["duration_ratio"] == pytest.approx(1 - waited / now, abs=2e-4)


def test_what_is_no_graph(tmp_path: Path) -> None:
    graph = Changes(graphs=("forward",))
    path = tmp_path / "sync.duckdb"
    made(path, kernel=10, tail=90, sync_inside=True)
    with pytest.raises(TraceError, match="waits for the GPU or allocates memory 8 times"):
        ratios(path, [graph])
    path = tmp_path / "odd.duckdb"
    made(path, kernel=10, tail=90, odd_step=("a", "b", "d", "c"))
    with pytest.raises(TraceError, match="launches the same kernels only 7 of 8 times"):
        ratios(path, [graph])
    others = tmp_path / "others.duckdb"
    made(others, kernel=10, tail=90, by_other=True)
    with pytest.raises(TraceError, match="other threads of its process launch 8 times"):
        ratios(others, [graph])
    with pytest.raises(TraceError, match="launches nothing on a GPU"):
        ratios(path, [Changes(graphs=("no such thing",))])
    with pytest.raises(TraceError, match="which thread had a CPU"):
        ratios(path, [Changes(cpus=1)])


def test_without_a_gpu_it_is_refused(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "none.duckdb")
    process = builder.process(pid=7, name="python")
    for at in range(STEPS):
        builder.operation(1, at * US, (at + 1) * US, "update")
    builder.thread(process, states=[run(STEPS * US), run(10)])
    with pytest.raises(TraceError, match="launched on a GPU"):
        ratios(builder.write(), [Changes(kernels=0.5)])


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "gpu.duckdb"
    made(path, kernel=200, tail=0)
    asked = ["--per", "update", "--kernel-speedup", "2", "--cuda-graph", "forward"]
    shown = rlscope("whatif", str(path), *asked, "--format", "json")
    found = json.loads(shown.stdout)
    assert found["duration_ratio"] == pytest.approx(415 / 815, rel=1e-3)
    assert found["grade"] == "C"
    assert found["reasons"] == ["graph_assumed", "no_states"]
    (row,) = found["rows"]
    assert row["change"] == "kernels 2 times as fast, forward as one CUDA graph"
    assert rlscope("whatif", str(path), "--kernel-speedup", "0").returncode == 2


def test_what_was_profiled_without_operations_has_to_be_recorded(tmp_path: Path) -> None:
    """To mark the program now would change nothing of what there is."""
    builder = TraceBuilder(tmp_path / "none.duckdb")
    builder.thread(builder.process(pid=7, name="python"), states=[], end_ns=100 * US)
    builder.cuda_call(1, 0, 20 * US, correlation_id=1)
    builder.gpu_activity(1, 25 * US, 90 * US, correlation_id=1)
    done = rlscope("whatif", builder.write())
    assert done.returncode == 1
    assert done.stderr == (
        "error: no operation is known that could be changed\n"
        "hint: record the program, which finds its phases: sudo rlscope-trace -- COMMAND\n"
    )
