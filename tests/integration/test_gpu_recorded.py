"""What the fake GPU did is in the trace, to the nanosecond, whatever the release of CUDA.

The GPU's times are simulated; that they arrive whole and in the right place is what is tested.
"""

import pytest

from gpu_family import Family, calls, record, truth

pytestmark = pytest.mark.root

RELEASES = ("11.8", "12.4", "12.9", "13.0", "13.4")
MIXED = (
    "--api=runtime", "--threads=3", "--streams=2", "--launches=60", "--copies=3", "--sets=2",
    "--graphs=4", "--syncs=3",
)  # fmt: skip
# What waits for the CPU is dated by the CPU.
GPU_WORK = ("kernel", "memcpy", "memset", "graph")
# Calls of which the trace keeps each, whatever the release.
KEPT = (
    "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaGraphLaunch", "cudaMalloc",
    "cudaFree", "cudaStreamSynchronize",
)  # fmt: skip
CONVERTED = ("refuse", "ignore")
EXACT = (*(f"release-{release}" for release in RELEASES), "devices", *CONVERTED, "many")


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    programs = {f"release-{name}": calls(*MIXED, release=name) for name in RELEASES}
    programs |= {
        "devices": calls(
            "--threads=4",
            "--peers=2",
            "--contexts=3",
            "--copies=1",
            "--names",
            FAKECUDA_DEVICES="2",
        ),
        "refuse": calls(*MIXED, FAKECUPTI_CLOCK="refuse"),
        "ignore": calls(*MIXED, FAKECUPTI_CLOCK="ignore"),
        "nodes": calls(*MIXED, RLSCOPE_CUDA_GRAPHS="node", RLSCOPE_CUDA_MEMORY="1"),
        "many": calls("--launches=20000", "--threads=2"),
        "lossy": calls("--launches=1000", FAKECUPTI_DROP="10"),
        "namespace": calls("--launches=30", prefix=("unshare", "--pid", "--fork")),
        "off": calls(RLSCOPE_CUPTI="off"),
        "yield": calls(RLSCOPE_CUPTI="yield"),
    }
    return record(tmp_path_factory.mktemp("gpu"), programs)


@pytest.mark.parametrize("label", EXACT)
def test_what_the_gpu_did_is_what_the_driver_counted(family: Family, label: str) -> None:
    reported = family.reported(label)
    assert reported["right"] is True
    found, wanted = family.work(label), truth(reported)
    for kind in GPU_WORK:
        count, time_ns = found.get(kind, (0, 0))
        assert count == wanted.get(kind, (0, 0))[0], kind
        # Both ends of what had to be converted are rounded.
        rounded_ns = count if label in CONVERTED else 0
        assert abs(time_ns - wanted.get(kind, (0, 0))[1]) <= rounded_ns, kind
    # Waits are dated by readings of two clocks where CUPTI's was not ours.
    assert found["sync"][0] == wanted["sync"][0]


@pytest.mark.parametrize("label", EXACT)
def test_every_activity_has_its_call_and_comes_after_it(family: Family, label: str) -> None:
    # Every kind of activity but waits, which are calls themselves.
    rows = family.query(
        "SELECT count(*), count(call_start_ns), min(start_ns - call_start_ns) FROM launch"
        " WHERE process_id = ? AND kind IN ('kernel', 'memcpy', 'memset', 'graph')",
        family.process(label),
    )
    ((count, joined, earliest_ns),) = rows
    work = truth(family.reported(label))
    assert count == joined == sum(work[kind][0] for kind in GPU_WORK if kind in work)
    assert earliest_ns >= 0


@pytest.mark.parametrize("release", RELEASES)
def test_calls_are_those_that_were_made(family: Family, release: str) -> None:
    label = f"release-{release}"
    made = family.reported(label)["truth"]["calls"]
    plain = {name.rsplit("_v", 1)[0]: count for name, count in made.items()}
    found = family.calls(label)
    assert {name: found[name] for name in KEPT} == {name: plain[name] for name in KEPT}
    # What neither gives the GPU work nor waits for it costs nothing and is not kept.
    assert found["cudaSetDevice"] == 0
    rows = family.query(
        "SELECT count(DISTINCT thread_id) FROM cuda_call"
        " WHERE process_id = ? AND name = 'cudaLaunchKernel'",
        family.process(label),
    )
    assert rows == [(3,)]


@pytest.mark.parametrize("release", RELEASES)
def test_the_status_tells_the_release(family: Family, release: str) -> None:
    versions = {"11.8": 18, "12.4": 22, "12.9": 28, "13.0": 130001, "13.4": 130401}
    (status,) = family.statuses(f"release-{release}")
    assert (status["state"], status["reason"], status["clock"]) == ("on", None, "monotonic")
    assert status["api_version"] == versions[release]
    assert status["refused"] is None
    assert family.coverage(f"release-{release}", "gpu_activity")[0] is True


def test_devices_and_streams_are_told_apart(family: Family) -> None:
    process_id = family.process("devices")
    rows = family.query(
        "SELECT count(DISTINCT device_id), count(DISTINCT (device_id, context_id, stream_id))"
        " FROM gpu_activity WHERE process_id = ? AND kind = 'kernel'",
        process_id,
    )
    # A stream of each thread, and the null stream of each context that came and went.
    assert rows == [(2, 7)]
    names = family.query(
        "SELECT DISTINCT name, clock_hz, memory_bandwidth FROM gpu_device ORDER BY name"
    )
    speed = (1_980_000_000, 3_352_320_000_000)
    assert names == [("Fake GPU 0", *speed), ("Fake GPU 1", *speed)]


def test_what_the_program_calls_them_is_kept(family: Family) -> None:
    rows = family.query(
        "SELECT name, context_id IS NULL, stream_id IS NULL, count(*), count(DISTINCT device_id)"
        " FROM gpu_stream WHERE process_id = ? AND name IS NOT NULL GROUP BY ALL ORDER BY ALL",
        family.process("devices"),
    )
    assert rows == [
        ("GPU 0", True, True, 1, 1),
        ("GPU 1", True, True, 1, 1),
        ("compute", False, False, 4, 2),
        ("default", False, False, 2, 2),
        ("main", False, True, 2, 2),
    ]
    ((strangers,),) = family.query(
        "SELECT count(*) FROM gpu_activity AS a LEFT JOIN gpu_stream AS s"
        " USING (process_id, device_id, context_id, stream_id)"
        " WHERE process_id = ? AND kind = 'kernel' AND s.process_id IS NULL",
        family.process("devices"),
    )
    assert strangers == 0


def test_a_copy_between_gpus_tells_where_it_went(family: Family) -> None:
    rows = family.query(
        "SELECT device_id, peer_device_id, count(*) FROM gpu_activity"
        " WHERE process_id = ? AND peer_device_id IS NOT NULL GROUP BY ALL ORDER BY ALL",
        family.process("devices"),
    )
    # Two threads on each, which copy twice.
    assert rows == [(0, 1, 4), (1, 0, 4)]


def test_a_clock_that_was_refused_is_converted(family: Family) -> None:
    assert family.statuses("refuse")[0]["clock"] == "converted"
    assert "RegisterTimestampCallback" in family.statuses("refuse")[0]["subject"]
    for label in CONVERTED:
        measured, reason = family.coverage(label, "gpu_activity")
        assert measured
        assert "converted from CUPTI's clock" in reason


def test_nodes_of_graphs_are_kernels_where_that_was_asked_for(family: Family) -> None:
    found, wanted = family.work("nodes"), truth(family.reported("nodes"), whole_graphs=False)
    assert found["kernel"] == wanted["kernel"]
    assert "graph" not in found
    process_id = family.process("nodes")
    nodes = family.query(
        "SELECT count(*) FROM gpu_activity WHERE process_id = ? AND graph_id IS NOT NULL",
        process_id,
    )
    assert nodes == [(family.reported("nodes")["truth"]["work"]["10"]["node_count"],)]
    memory = family.query(
        "SELECT operation, count(*), sum(bytes)::BIGINT FROM gpu_memory WHERE process_id = ?"
        " GROUP BY operation ORDER BY operation",
        process_id,
    )
    account = family.reported("nodes")["truth"]["work"]["49"]
    half = (account["count"] // 2, account["bytes"] // 2)
    assert memory == [("allocate", *half), ("free", *half)]


def test_lost_records_are_counted(family: Family) -> None:
    # Of ten records one is lost, whatever it tells: calls, kernels, waits, streams, overhead.
    ((dropped,),) = family.query(
        "SELECT count FROM trace_stat WHERE kind = 'dropped' AND code = 'cupti_buffers_full'",
    )
    kept = sum(family.calls("lossy").values()) + sum(
        count for count, _ in family.work("lossy").values()
    )
    assert family.work("lossy")["kernel"][0] < 1000
    assert kept // 9 <= dropped <= kept // 9 + 3


def test_a_program_in_a_pid_namespace_is_recorded(family: Family) -> None:
    # Its own pid is 1 there, which is not what the trace calls it.
    assert family.reported("namespace")["pid"] == 1
    rows = family.query(
        "SELECT count(*), sum(a.end_ns - a.start_ns)::BIGINT FROM gpu_activity AS a"
        " JOIN process USING (process_id) JOIN process AS parent"
        " ON parent.process_id = process.parent_process_id"
        " WHERE parent.pid = ? AND kind = 'kernel'",
        family.programs["namespace"]["pid"],
    )
    assert rows == [truth(family.reported("namespace"))["kernel"]]


@pytest.mark.parametrize(
    ("label", "reason"), [("off", "not_asked_for"), ("yield", "cupti_yielded")]
)
def test_what_was_not_asked_for_is_not_measured(family: Family, label: str, reason: str) -> None:
    (status,) = family.statuses(label)
    assert (status["state"], status["reason"]) == ("off", reason)
    assert family.work(label) == {}
    measured, said = family.coverage(label, "gpu_activity")
    assert not measured
    assert f"--cupti {label}" in said


def test_a_program_without_cuda_is_not_measured(family: Family) -> None:
    rows = family.query(
        "SELECT process_id FROM process WHERE parent_process_id IS NULL AND command LIKE ?",
        "%cuda_family%",
    )
    assert len(rows) == 1
    measured = family.query(
        "SELECT measured FROM coverage WHERE kind = 'gpu_activity' AND process_id = ?",
        rows[0][0],
    )
    assert measured == []
    everybody = family.query(
        "SELECT measured FROM coverage WHERE kind = 'gpu_activity' AND process_id IS NULL",
    )
    assert everybody == [(False,)]
