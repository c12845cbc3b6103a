"""`import kineto`: what becomes what, on real files and on small ones made for a rule."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import rlscope_analysis
from kineto_builder import (
    EPOCH_US,
    annotation,
    call,
    gpu_intervals,
    imported,
    kernel,
    losses,
    measures,
    op,
    run_import,
    slice_,
    write_kineto,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "kineto"
EPOCH_NS = EPOCH_US * 1000


def copied(name: str, directory: Path) -> Path:
    path = directory / name
    path.write_bytes((DATA / name).read_bytes())
    return path


def test_the_critical_path_is_that_of_another_tool(tmp_path: Path) -> None:
    """What HolisticTraceAnalysis 0.5.0 finds for this step, rounded to its microseconds.

    Of the 78,776 us that it has calls in: kernels and sets 4.712095 %, between kernels 50 us,
    after a launch 30 us, which it counts from the start of the call.
    """
    trace = tmp_path / "trace.duckdb"
    run_import([copied("alexnet.json.gz", tmp_path)], trace, views=True)
    step = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
    with rlscope_analysis.open(trace) as opened:
        opened.critical_path(per=step)
        found = {
            cause: round(us)
            for cause, us in opened.sql(
                "SELECT cause, sum(duration_ns) / 1e3 FROM critical_path"
                " WHERE device_id IS NOT NULL GROUP BY ALL"
            ).fetchall()
        }
    assert found["gpu"] == round(78_776 * 0.04712095)
    assert found["gpu_queue"] == 51
    assert 0 < found["launch_latency"] <= 30


def test_alexnet_to_the_nanosecond(tmp_path: Path) -> None:
    with imported(copied("alexnet.json.gz", tmp_path), views=True) as con:
        row = con.execute(
            "SELECT count(*), sum(end_ns - start_ns), max(end_ns) - min(start_ns),"
            " count(DISTINCT stream_id) FROM gpu_activity WHERE kind <> 'sync'"
        ).fetchall()
        assert row == [(98, 66_203_000, 12_920_244_000, 2)]
        assert con.execute("SELECT sum(end_ns - start_ns) FROM gpu_busy").fetchall() == [
            (66_141_000,)
        ]
        assert losses(con) == {
            ("skipped", "kineto_skipped Trace events"): 1,
            ("skipped", "kineto_skipped_uncategorised instant events"): 2,
        }


def test_triton_example(tmp_path: Path) -> None:
    with imported(copied("triton_example.json.gz", tmp_path)) as con:
        assert con.execute(
            "SELECT end_ns - start_ns, name, correlation_id, stream_id, device_id FROM gpu_activity"
        ).fetchall() == [(1760, "triton_poi_fused_add_cos_sin_0", 35, 7, 0)]
        # The file counts from baseTimeNanoseconds; its times stay as they are.
        assert con.execute("SELECT realtime_ns - ts_ns FROM clock").fetchall() == [
            (1_727_743_122_000_000_000,)
        ]


@pytest.mark.parametrize("name", ["alexnet.json.gz", "triton_example.json.gz"])
def test_gpu_activity_is_that_of_the_reference(tmp_path: Path, name: str) -> None:
    expected = gpu_intervals(gzip.decompress((DATA / name).read_bytes()))
    with imported(copied(name, tmp_path)) as con:
        for kind, intervals in expected.items():
            stored = con.execute(
                "SELECT start_ns, end_ns FROM gpu_activity WHERE kind = ?", [kind]
            ).fetchall()
            assert sorted(stored) == sorted(intervals)
            assert measures(stored) == measures(intervals)


def test_operations_nest(tmp_path: Path) -> None:
    events = [annotation("step", 0, 100), annotation("forward", 10, 40), annotation("back", 40, 90)]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT name, start_ns - ?, end_ns - ?, depth, source, domain, category FROM operation",
            [EPOCH_NS, EPOCH_NS],
        ).fetchall() == [
            ("step", 0, 100_000, 0, "record_function", None, None),
            ("forward", 10_000, 40_000, 1, "record_function", None, None),
            ("back", 40_000, 90_000, 1, "record_function", None, None),
        ]


def test_native_calls_have_layers_and_sites(tmp_path: Path) -> None:
    events = [
        slice_("python_function", "torch/nn/module.py(1501): _call", 0, 50),
        slice_("python_function", "<built-in method mm>", 5, 45),
        op("aten::mm", 10, 40),
        op("aten::mm", 60, 70, tid=101),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT tid, n.layer, parent_layer, depth, module, symbol, state FROM native_call AS n"
            " JOIN site USING (site_id) JOIN thread USING (thread_id)"
            " ORDER BY thread_id, n.start_ns"
        ).fetchall() == [
            (100, "python", None, 0, "torch/nn/module.py", "_call:1501", "imported"),
            (100, "python", "python", 1, None, "<built-in method mm>", "imported"),
            (100, "backend", "python", 2, "torch", "aten::mm", "imported"),
            (101, "backend", None, 0, "torch", "aten::mm", "imported"),
        ]


def test_ranges_that_cross_are_kept_and_counted(tmp_path: Path) -> None:
    events = [op("a", 0, 10), op("b", 5, 15), op("c", 12, 13)]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute("SELECT depth FROM native_call").fetchall() == [(0,), (1,), (1,)]
        assert losses(con) == {
            (
                "unmatched",
                "not_nested native call",
            ): 1
        }


def test_activities_belong_to_the_process_of_their_call(tmp_path: Path) -> None:
    events = [
        call("cudaLaunchKernel", 0, 1, 1, pid=100),
        call("cudaLaunchKernel", 2, 3, 2, pid=100),
        call("cuLaunchKernelEx", 0, 1, 3, pid=200, tid=200),
        kernel("first", 5, 6, 1),
        kernel("other process", 5, 6, 3, device=1),
        kernel("orphan", 8, 9, 99),
        kernel("no correlation", 9, 10),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT pid, name, correlation_id, device_id FROM gpu_activity ORDER BY start_ns, pid"
        ).fetchall() == [
            (100, "first", 1, 0),
            (200, "other process", 3, 1),
            (100, "orphan", 99, 0),
            (100, "no correlation", None, 0),
        ]
        assert losses(con) == {("unmatched", "kineto_gpu_without_call"): 2}


def test_activities_that_overlap_on_a_stream_are_kept(tmp_path: Path) -> None:
    events = [call("cudaLaunchKernel", 0, 1, 1)]
    events += [kernel(f"k{index}", 10 * index, 10 * index + 15, 1) for index in range(3)]
    with imported(write_kineto(tmp_path / "a.json", events), views=True) as con:
        stored = con.execute("SELECT start_ns, end_ns FROM gpu_activity").fetchall()
        assert measures(stored) == {
            "count": 3, "sum": 45_000, "union": 35_000, "span": 35_000, "idle": 0,
        }  # fmt: skip
        assert con.execute("SELECT sum(end_ns - start_ns) FROM gpu_busy").fetchall() == [(35_000,)]


def test_kinds_bytes_and_graphs(tmp_path: Path) -> None:
    events = [
        call("cudaGraphLaunch", 0, 1, 1),
        kernel("Memcpy HtoD", 1, 2, 1, category="gpu_memcpy", bytes=4096),
        kernel("Memset", 2, 3, 1, category="gpu_memset", bytes=16),
        kernel("in a graph", 3, 4, 1, **{"graph id": 5, "graph node id": 21474836481}),
        kernel("of a node", 4, 5, 1, **{"graph node id": (6 << 32) + 1}),
        kernel("in none", 5, 6, 1, **{"graph id": 0, "graph node id": 0}),
        kernel("Stream Sync", 6, 7, 1, category="cuda_sync"),
        kernel("Context Sync", 7, 8, 1, category="cuda_sync", stream=4294967295),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT kind, bytes, graph_id, stream_id, context_id FROM gpu_activity"
        ).fetchall() == [
            ("memcpy", 4096, None, 7, 1),
            ("memset", 16, None, 7, 1),
            ("kernel", None, 5, 7, 1),
            ("kernel", None, 6, 7, 1),
            ("kernel", None, None, 7, 1),
            ("sync", None, None, 7, 1),
            ("sync", None, None, None, 1),
        ]


def test_amd(tmp_path: Path) -> None:
    events = [
        call("hipExtModuleLaunchKernel", 0, 1, 1),
        call("hipMemcpyWithStream", 1, 2, 2),
        call("hipStreamSynchronize", 2, 3, 3),
        slice_("kernel", "Cijk_Ailk", 4, 5, pid=3, tid=2, correlation=1, stream=2, grid=[1]),
        slice_("gpu_memcpy", "Memcpy HtoD (Host -> Device)", 5, 6, pid=3, tid=2, correlation=2),
        # Copies that a kernel does, and those of early ROCm profilers, stay what the file says.
        slice_("kernel", "__amd_rocclr_fillBufferAligned.kd", 6, 7, pid=3, tid=2, correlation=2),
        slice_("kernel", "CopyHostToDevice", 7, 8, pid=3, tid=2, correlation=2),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute("SELECT kind FROM cuda_call").fetchall() == [
            ("launch",), ("memcpy",), ("sync",),
        ]  # fmt: skip
        assert con.execute("SELECT kind, device_id, stream_id FROM gpu_activity").fetchall() == [
            ("kernel", 3, 2), ("memcpy", 3, 2), ("kernel", 3, 2), ("kernel", 3, 2),
        ]  # fmt: skip


def test_categories_of_early_profilers(tmp_path: Path) -> None:
    events = [
        slice_("Operator", "aten::add", 0, 9),
        slice_("Runtime", "cudaLaunchKernel", 1, 2, correlation=4),
        slice_("Kernel", "add", 3, 4, pid=0, tid="stream 7", stream=7, correlation=4),
        slice_("Memcpy", "Memcpy DtoH", 4, 5, pid=0, tid="stream 7", stream=7, correlation=4),
        slice_("Memset", "Memset", 5, 6, pid=0, tid="stream 7", stream=7, correlation=4),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute("SELECT kind, stream_id FROM gpu_activity").fetchall() == [
            ("kernel", 7), ("memcpy", 7), ("memset", 7),
        ]  # fmt: skip
        assert con.execute("SELECT count(*) FROM native_call").fetchall() == [(1,)]
        assert losses(con) == {}


def test_steps_of_early_profilers_are_operations(tmp_path: Path) -> None:
    events = [
        slice_("Operator", "ProfilerStep#5", 0, 9),
        slice_("cpu_op", "ProfilerStep#6", 10, 19),
        op("aten::add", 11, 12),
    ]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute("SELECT name FROM operation").fetchall() == [
            ("ProfilerStep#5",), ("ProfilerStep#6",),
        ]  # fmt: skip
        assert con.execute("SELECT count(*) FROM native_call").fetchall() == [(1,)]


def test_gpus_as_early_profilers_list_them(tmp_path: Path) -> None:
    device = {"id": 1, "name": "Tesla V100", "totalGlobalMem": 1 << 35, "major": 7, "minor": 0,
              "multiProcessorCount": 80}  # fmt: skip
    beyond = {"id": 2**31, "name": "of no id"}
    path = write_kineto(tmp_path / "a.json", [op("a", 0, 9)], computeProperties=[device, beyond])
    with imported(path) as con:
        assert con.execute(
            "SELECT device_id, name, memory_bytes, multiprocessors, compute_capability"
            " FROM gpu_device"
        ).fetchall() == [(1, "Tesla V100", 1 << 35, 80, "7.0")]


def test_what_a_gpu_did_needs_no_pid(tmp_path: Path) -> None:
    bare = {"ph": "X", "cat": "kernel", "name": "k", "ts": EPOCH_US + 5, "dur": 1}
    events = [call("cudaLaunchKernel", 0, 1, 1), bare, {**bare, "args": {"correlation": 1}}]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        assert con.execute(
            "SELECT pid, device_id, stream_id, correlation_id FROM gpu_activity ORDER BY ALL"
        ).fetchall() == [(100, None, None, 1), (100, None, None, None)]
