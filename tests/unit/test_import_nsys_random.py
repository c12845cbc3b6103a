"""Random exports of Nsight Systems: what comes out is what went in, to the nanosecond."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nsys_builder import NsysBuilder, imported

TIMES = st.integers(0, 1 << 50)
INTERVALS = st.tuples(TIMES, st.integers(0, 1 << 40)).map(lambda pair: (pair[0], sum(pair)))
PIDS = st.integers(1, 3)
KERNELS = st.lists(
    st.tuples(
        INTERVALS, PIDS, st.one_of(st.none(), st.integers(0, 5)),
        # The largest 32-bit number means no stream.
        st.one_of(st.none(), st.integers(0, (1 << 32) - 2)),
        st.one_of(st.none(), st.integers(1, 20)),
        st.sampled_from(["gemm", "add<float>", "核"]),
    ),
    max_size=30,
)  # fmt: skip
CALLS = st.lists(
    st.tuples(
        INTERVALS, PIDS, st.integers(1, 2), st.integers(1, 20),
        st.sampled_from(["cudaLaunchKernel_v7000", "cuMemFree_v2", "f"]),
    ),
    min_size=1, max_size=30,
)  # fmt: skip
RANGES = st.lists(
    st.tuples(INTERVALS, PIDS, st.integers(1, 2), st.sampled_from("abc"), st.booleans()),
    max_size=30,
)


@settings(max_examples=15, deadline=None)
@given(kernels=KERNELS, calls=CALLS, ranges=RANGES)
def test_round_trip(
    kernels: list[tuple[Any, ...]], calls: list[tuple[Any, ...]], ranges: list[tuple[Any, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        builder = NsysBuilder(Path(directory) / "report.sqlite")
        for (start, end), pid, device, stream, correlation, name in kernels:
            builder.kernel(
                start, end, pid=pid, device=device, stream=stream, correlation=correlation,
                name=name,
            )  # fmt: skip
        for (start, end), pid, tid, correlation, name in calls:
            builder.call(start, end, pid=pid, tid=tid, correlation=correlation, name=name)
        for (start, end), pid, tid, name, registered in ranges:
            builder.nvtx(start, end, name, pid=pid, tid=tid, registered=registered)
        trace = imported(builder.write())
        assert Counter(
            trace.rows(
                "SELECT start_ns, end_ns, pid, device_id, stream_id, correlation_id, name"
                " FROM gpu_activity"
            )
        ) == Counter((*interval, *rest) for interval, *rest in kernels)
        assert Counter(
            trace.rows(
                "SELECT c.start_ns, c.end_ns, pid, tid, correlation_id, c.name FROM cuda_call AS c"
                " JOIN thread USING (thread_id)"
            )
        ) == Counter((*interval, *rest) for interval, *rest in calls)
        assert Counter(
            trace.rows(
                "SELECT o.start_ns, o.end_ns, pid, tid, o.name FROM operation AS o"
                " JOIN thread USING (thread_id)"
            )
        ) == Counter((*interval, *rest[:3]) for interval, *rest in ranges)
        known = {(pid, correlation) for _, pid, _, correlation, _ in calls}
        orphans = sum((pid, correlation) not in known for _, pid, _, _, correlation, _ in kernels)
        counted = {
            source: count for (_, source), count in trace.losses().items() if "call" in source
        }
        assert sum(counted.values()) == orphans
