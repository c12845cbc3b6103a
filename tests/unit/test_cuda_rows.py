"""CUDA calls that probes recorded: rows of cuda_call, once, and what the trace says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_trace.spool.directory import open_spool
from said import said
from shim_builder import DRIVER, HELD, OFF, REFUSED, YIELDED, ShimBuilder
from spool_builder import OPEN, SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

LEFT = "CUPTI is left to another profiler (torch.profiler, nsys): --cupti yield"
BEGIN, FINISH = 100, 1000
PROBE_SETTINGS = {"layers": ["simulator"], "sample_hz": 0, "gil": "waits", "not_measured": {},
               "cuda_calls": "auto"}  # fmt: skip
SESSION = {"probe_settings": PROBE_SETTINGS, "capture": "btf", "machine": "x86_64",
           "gpu": {"measured": True, "fact": {"code": "cupti"}}}  # fmt: skip
CUDA, NATIVE = 4, 3
WHERE = "libcuda.so.1, libcudart.so.12: no GPU activity, no correlation"


def site(site_id: int, symbol: str, layer: str = "cuda_api") -> dict[str, object]:
    return {"event": "site", "site_id": site_id, "module": "/v/libcuda.so.1", "symbol": symbol,
            "kind": "launch", "layer": layer, "file_offset": 64 * site_id, "state": "probed",
            "ts_ns": 90}  # fmt: skip


SITES = [site(1, "cudaLaunchKernel"), site(2, "cuLaunchKernel"), site(3, "cuStreamSynchronize"),
         site(4, "at::add", "backend")]  # fmt: skip


def reported(pid: int, state: str = "probed", **facts: object) -> dict[str, object]:
    files = ["libcuda.so.1", "libcudart.so.12"] if state == "probed" else []
    return {"event": "cuda", "pid": pid, "ts_ns": 150, "state": state, "files": files,
            "blind": [], "reason": None, **facts}  # fmt: skip


@pytest.fixture
def spool() -> SpoolBuilder:
    """Return a spool of the processes 10 and 20, each of one thread, with calls of both."""
    made = SpoolBuilder()
    for thread_id in (1, 2):
        made.thread(thread_id, ts_ns=BEGIN, tid=10 * thread_id, tgid=10 * thread_id)
        made.cycle(thread_id, off_ns=BEGIN, in_ns=110, out_ns=FINISH - 10)
        made.close(thread_id, off_ns=FINISH - 10)
    made.call(2, start_ns=300, end_ns=310, site=1, layer=CUDA)
    # The driver within the runtime is written first.
    made.call(1, start_ns=205, end_ns=215, site=2, layer=CUDA, parent=CUDA, depth=2)
    made.call(1, start_ns=200, end_ns=220, site=1, layer=CUDA, parent=NATIVE, depth=1)
    made.call(1, start_ns=190, end_ns=230, site=4, layer=NATIVE)
    made.call(1, start_ns=900, end_ns=1100, site=3, layer=CUDA, flags=OPEN)
    return made


class Trace:
    """What finalise makes of a spool."""

    def __init__(
        self,
        folder: Path,
        spool: SpoolBuilder,
        probes: list[dict[str, object]],
        shim: ShimBuilder | None = None,
        session: dict[str, object] | None = None,
    ) -> None:
        directory = spool.write(
            folder / "t.spool", end_ns=FINISH, session=session or SESSION, probes=probes
        )
        if shim is not None:
            shim.write(directory)
        self._path = folder / "t.duckdb"
        self.report: TraceReport = finalise(
            open_spool(directory), self._path,
        )  # fmt: skip

    def ask(self, query: str) -> list[tuple[object, ...]]:
        with duckdb.connect(str(self._path), read_only=True) as con:
            return con.execute(query).fetchall()

    @property
    def calls(self) -> list[tuple[object, ...]]:
        return self.ask(
            "SELECT thread_id, start_ns, end_ns, kind, name, correlation_id FROM cuda_call"
        )

    @property
    def said(self) -> dict[object, tuple[object, ...]]:
        found = said(self.ask, "kind = 'cuda_call'")
        rows = [(process_id, *rest) for process_id, _, *rest in found]
        assert len({row[0] for row in rows}) == len(rows)
        return {process_id: tuple(rest) for process_id, *rest in rows}


OF_FIRST = [
    (1, 200, 220, "launch", "cudaLaunchKernel", None),
    (1, 205, 215, "launch", "cuLaunchKernel", None),
    (1, 900, 1000, "sync", "cuStreamSynchronize", None),
]
OF_SECOND = [(2, 300, 310, "launch", "cudaLaunchKernel", None)]


def cupti(pid: int) -> ShimBuilder:
    shim = ShimBuilder()
    shim.source(pid=pid)
    shim.thread(tid=pid, ts_ns=BEGIN)
    return shim


def test_calls_become_rows_of_cuda_call_and_no_others(tmp_path: Path, spool: SpoolBuilder) -> None:
    trace = Trace(tmp_path, spool, [*SITES, reported(10), reported(20)])
    assert trace.calls == OF_FIRST + OF_SECOND
    assert trace.ask("SELECT thread_id, start_ns, layer FROM native_call") == [(1, 190, "backend")]
    assert trace.ask("SELECT value FROM string ORDER BY string_id") == [
        ("cudaLaunchKernel",), ("cuLaunchKernel",), ("cuStreamSynchronize",),
    ]  # fmt: skip
    assert trace.report.rows["cuda_call_coded"] == 4
    assert trace.report.rows["native_call_coded"] == 1
    assert trace.said == dict.fromkeys((1, 2), (True, f"by probes on the functions of {WHERE}"))


def test_of_calls_that_cupti_told_too_its_own_stay(tmp_path: Path, spool: SpoolBuilder) -> None:
    shim = cupti(10)
    shim.status()
    shim.call(10, 201, 219, "cudaLaunchKernel_v7000", correlation=1)
    shim.call(10, 206, 214, "cuLaunchKernel", api=DRIVER, correlation=1)
    trace = Trace(tmp_path, spool, [*SITES, reported(10), reported(20)], shim)
    assert trace.calls == [
        (1, 201, 219, "launch", "cudaLaunchKernel_v7000", 1),
        (1, 206, 214, "launch", "cuLaunchKernel", 1),
        *OF_SECOND,
    ]
    assert trace.report.rows["cuda_call_coded"] == 3
    assert trace.said[1][0] is True
    assert "probes" not in str(trace.said[1][1])
    assert trace.said[2] == (True, f"by probes on the functions of {WHERE}")


def test_after_its_program_was_replaced_probes_tell(tmp_path: Path, spool: SpoolBuilder) -> None:
    shim = cupti(10)
    shim.status(ts_ns=120)
    shim.call(10, 150, 160, "cudaFree", correlation=1)
    spool.call(1, start_ns=150, end_ns=160, site=1, layer=CUDA)
    spool.exec(1, ts_ns=195, tid=10)
    trace = Trace(tmp_path, spool, [*SITES, reported(10), reported(20)], shim)
    assert trace.calls == [(1, 150, 160, "memory", "cudaFree", 1), *OF_FIRST, *OF_SECOND]
    assert trace.said[1] == (
        True,
        "in part: not after it replaced its program, 0.000 s after the start;"
        f" when CUPTI did not tell: by probes on the functions of {WHERE}",
    )


@pytest.mark.parametrize(("first_ns", "kept"), [(305, OF_FIRST[:2]), (210, [])])
def test_before_a_late_start_of_cupti_probes_tell(
    tmp_path: Path, spool: SpoolBuilder, first_ns: int, kept: list[tuple[object, ...]]
) -> None:
    shim = cupti(10)
    # Told when CUPTI had worked for a while, perhaps.
    shim.status(ts_ns=300, is_late=1)
    shim.call(10, first_ns, first_ns + 5, "cudaFree")
    trace = Trace(tmp_path, spool, [*SITES, reported(10), reported(20)], shim)
    assert trace.calls == [
        *kept,
        (1, first_ns, first_ns + 5, "memory", "cudaFree", None),
        *OF_SECOND,
    ]


def test_calls_before_the_probes_are_missing(tmp_path: Path, spool: SpoolBuilder) -> None:
    spool.thread(3, ts_ns=200, tid=30, creator=1, parent_tgid=10)
    sites = [{**one, "ts_ns": 140} for one in SITES]
    trace = Trace(tmp_path, spool, [*sites, reported(10), {**reported(30), "ts_ns": 250}])
    assert trace.said[1] == (
        True,
        "in part: only calls from 0.000 s after the start on;"
        f" by probes on the functions of {WHERE}",
    )
    assert trace.said[3] == (True, f"by probes on the functions of {WHERE}")


@pytest.mark.parametrize(
    ("mode", "more"), [("auto", "; it ended before it could be probed"), ("off", "")]
)
def test_a_process_too_short_for_probes_says_so(tmp_path: Path, mode: str, more: str) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10)
    shim = cupti(10)
    shim.status(OFF, YIELDED)
    session = {**SESSION, "probe_settings": {**PROBE_SETTINGS, "cuda_calls": mode}}
    trace = Trace(tmp_path, spool, [], shim, session=session)
    assert trace.said == {1: (False, f"{LEFT}{more}")}


def test_a_process_that_called_cuda_did_initialise_it(tmp_path: Path, spool: SpoolBuilder) -> None:
    # The spool of a recorder that asked for CUPTI, and heard nothing of it.
    trace = Trace(tmp_path, spool, [*SITES, reported(10), reported(20)], ShimBuilder())
    rows = trace.ask("SELECT process_id, measured, code FROM coverage WHERE kind = 'gpu_activity'")
    assert rows == [(1, False, "cupti_unheard"), (2, False, "cupti_unheard")]


def test_where_cupti_is_on_but_told_no_call_there_was_none(
    tmp_path: Path, spool: SpoolBuilder
) -> None:
    shim = cupti(20)
    shim.status()
    trace = Trace(tmp_path, spool, [*SITES, reported(10), reported(20)], shim)
    assert trace.calls == OF_FIRST


def test_where_cupti_was_refused_probes_tell(tmp_path: Path, spool: SpoolBuilder) -> None:
    shim = cupti(10)
    shim.status(REFUSED, HELD)
    trace = Trace(tmp_path, spool, [*SITES, reported(10)], shim)
    assert trace.calls == OF_FIRST + OF_SECOND
    assert trace.said[1] == (True, f"by probes on the functions of {WHERE}")
    query = "SELECT measured FROM coverage WHERE kind = 'gpu_activity' AND process_id = 1"
    assert trace.ask(query) == [(False,)]
    # Nobody looked at the second one, but its library had its probes.
    assert trace.said[2] == (
        True, "by probes on the functions of CUDA's libraries: no GPU activity, no correlation",
    )  # fmt: skip


def test_what_could_not_be_probed_is_said(tmp_path: Path, spool: SpoolBuilder) -> None:
    blind = reported(10, blind=["libcublas.so.13"], reason="libcudart.so.12: in a loop")
    failed = reported(20, "failed", reason="libcuda.so.1: it has no such functions")
    empty = SpoolBuilder()
    empty.thread(1, ts_ns=BEGIN, tid=10)
    empty.thread(2, ts_ns=BEGIN, tid=20)
    trace = Trace(tmp_path, empty, [*SITES, blind, failed])
    assert trace.calls == []
    assert trace.said == {
        1: (
            True,
            f"by probes on the functions of {WHERE}; calls of the runtime inside libcublas.so.13"
            " have no names and are not seen, those of the driver that they make are; not probed:"
            " libcudart.so.12: in a loop",
        ),
        2: (False, "not probed: libcuda.so.1: it has no such functions"),
    }


def test_a_process_that_is_left_to_cupti_gets_no_row(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10)
    trace = Trace(tmp_path, spool, [reported(10, "left")])
    assert trace.said == {}


def test_a_fork_has_what_its_parent_has_and_later_words_replace_earlier(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10)
    spool.thread(2, ts_ns=200, tid=20, creator=1, parent_tgid=10)
    trace = Trace(tmp_path, spool, [reported(10, "left"), {**reported(10), "ts_ns": 160}])
    assert {measured for measured, _ in trace.said.values()} == {True}
    assert set(trace.said) == {1, 2}


def test_what_was_away_for_a_while_is_measured_in_part(tmp_path: Path, spool: SpoolBuilder) -> None:
    gone = {"event": "gave_up", "fact": {"code": "recorder_failed", "detail": "lost"}}
    trace = Trace(tmp_path, spool, [*SITES, reported(10), gone])
    assert trace.said[1] == (
        True, f"in part: the recorder failed: lost; by probes on the functions of {WHERE}",
    )  # fmt: skip


@pytest.mark.parametrize(("mode", "reason"), [
    ("auto", "see_cuda_call"),
    ("off", "cuda_not_probed"),
    (None, "cuda_not_probed"),
])  # fmt: skip
def test_the_layer_says_where_its_calls_are(tmp_path: Path, mode: str | None, reason: str) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10)
    probe_settings = {**PROBE_SETTINGS, "cuda_calls": mode}
    if mode is None:
        del probe_settings["cuda_calls"]
    trace = Trace(tmp_path, spool, [], session={**SESSION, "probe_settings": probe_settings})
    assert trace.ask("SELECT measured, code FROM coverage WHERE kind = 'native_call:cuda_api'") \
        == [(False, reason)]  # fmt: skip


@pytest.mark.parametrize("line", [
    {**reported(10), "files": 3}, {**reported(10), "pid": -1}, {"event": "cuda", "pid": 10},
])  # fmt: skip
def test_a_damaged_line_is_counted(
    tmp_path: Path, spool: SpoolBuilder, line: dict[str, object]
) -> None:
    trace = Trace(tmp_path, spool, [*SITES, line])
    assert trace.calls == OF_FIRST + OF_SECOND
    assert trace.ask("SELECT count FROM trace_stat WHERE code = 'probe_notes_damaged'") == [(1,)]
