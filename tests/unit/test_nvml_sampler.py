"""The sampler of NVML against a library with a known series: nothing lost, nothing averaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from fake_nvml import build_nvml

if TYPE_CHECKING:
    from pathlib import Path

# Samples until it has so many readings of a counter, then ends it and prints the clock.
PROGRAM = """
import json, resource, sys, threading, time
from pathlib import Path
from rlscope_trace.spool.counter_file import CounterLines, read_counter_file
from rlscope_trace.record.nvml.readers import realtime_ahead_ns
from rlscope_trace.record.nvml.sampler import CounterSampler
path, wanted, counter, stop_s, disk = sys.argv[1:]
path = Path(path)
sampler = CounterSampler(path, interval_ms=1)
if disk == "full":
    import errno, rlscope_trace.spool.counter_file as module
    write = module.os.pwrite
    def refused(file, data, at):
        # The header has its place; of what comes after it a part fits.
        if at + len(data) <= 2304:
            return write(file, data, at)
        if at >= 2304:
            raise OSError(errno.ENOSPC, "full")
        return write(file, data[: 2304 - at], at)
    module.os.pwrite = refused
sampler.start()
thread = [other for other in threading.enumerate() if other.name == "nvml"]
deadline = time.monotonic() + 30
def found():
    lines = CounterLines()
    rows = list(read_counter_file(path, lines))
    if wanted == "0" or lines.unavailable or lines.lost.count > 20:
        return True
    return sum(row[2] == counter for row in rows) >= int(wanted)
while path.exists() and not found():
    assert time.monotonic() < deadline
    threading.Event().wait(0.002)
ahead_ns = realtime_ahead_ns()
sampler.stop(float(stop_s))
lines = CounterLines()
rows = list(read_counter_file(path, lines)) if path.exists() else []
print(json.dumps({
    "rows": rows, "unavailable": [fact.to_json() for fact in lines.unavailable],
    "ended": lines.is_ended, "hung": lines.is_hung,
    "devices": [[d.index, d.uuid, d.name] for d in lines.devices], "driver": lines.driver,
    "not_measured": lines.not_measured, "lost": lines.lost.count, "failed": lines.failed.count,
    "damaged": lines.damaged, "ahead_ns": ahead_ns, "pynvml": "pynvml" in sys.modules,
    "alive": any(other.is_alive() for other in thread),
}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("nvml"))


def sample(  # what a test does not say is as on a machine with one GPU
    folder: Path,
    path: Path,
    *,
    wanted: int = 3,
    counter: str = "power",
    stop_s: float = 30,
    disk: str = "",
    **settings: str,
) -> dict[str, Any]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    environment |= {f"FAKE_NVML_{name.upper()}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(wanted), counter, str(stop_s), disk],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def series(answer: dict[str, Any]) -> dict[tuple[int, str], list[tuple[int, float]]]:
    found = defaultdict(list)
    for position, ts_ns, name, value in answer["rows"]:
        found[position, name].append((ts_ns, value))
    return dict(found)


def test_every_reading_of_a_known_series_is_there(library: Path, tmp_path: Path) -> None:
    answer = sample(library, tmp_path / "c", wanted=6, counter="utilization_gpu", devices="2")
    assert answer["devices"] == [[0, "GPU-fake-0", "Fake GPU"], [1, "GPU-fake-1", "Fake GPU"]]
    assert (answer["driver"], answer["ended"], answer["hung"]) == ("580.1", True, False)
    assert answer["lost"] == answer["failed"] == answer["damaged"] == 0
    assert [row[:2] for row in answer["not_measured"]] == [
        [0, "utilization_memory"],
        [1, "utilization_memory"],
    ]
    found = series(answer)
    assert {name for _, name in found} == {
        "utilization_gpu", "sm_clock", "power", "energy", "throttle_reasons", "memory_used",
        "sm_activity", "sm_clock_max",
    }  # fmt: skip
    for device in (0, 1):
        powers = [value for _, value in found[device, "power"]]
        assert powers == [(70000 + n) / 1000 for n in range(1, len(powers) + 1)]
        assert [value for _, value in found[device, "energy"]] == [
            float(n) for n in range(1, len(powers) + 1)
        ]
        assert {value for _, value in found[device, "sm_clock"]} == {1410.0 + device}
        # It stays as it is: read once.
        assert [value for _, value in found[device, "sm_clock_max"]] == [1880.0]
        assert {value for _, value in found[device, "sm_activity"]} == {12.5}
        times = [ts_ns for ts_ns, _ in found[device, "power"]]
        assert times == sorted(set(times))


def test_samples_of_utilization_are_the_drivers_own_each_once(
    library: Path, tmp_path: Path
) -> None:
    answer = sample(library, tmp_path / "c", wanted=8, counter="utilization_gpu")
    samples = series(answer)[0, "utilization_gpu"]
    # Back to the clock of the driver, whose samples end at whole multiples of 20 ms.
    periods = [round((ts_ns + answer["ahead_ns"]) / 20_000_000) for ts_ns, _ in samples]
    assert periods == list(range(periods[0], periods[0] + len(periods)))
    assert [value for _, value in samples] == [period % 101 for period in periods]
    first_ns = min(ts_ns for _, ts_ns, *_ in answer["rows"])
    # None tells of the time before the sampler began.
    assert samples[0][0] >= first_ns - 20_000_000


def test_instances_of_a_gpu_are_devices_of_their_own(library: Path, tmp_path: Path) -> None:
    answer = sample(library, tmp_path / "c", wanted=9, counter="memory_used", mig="1")
    assert [device[:2] for device in answer["devices"]] == [
        [0, "GPU-fake-0"], [0, "MIG-fake-0-0"], [0, "MIG-fake-0-1"],
    ]  # fmt: skip
    found = series(answer)
    assert {name for position, name in found if position == 1} == {"memory_used", "sm_activity"}
    assert {value for _, value in found[1, "sm_activity"]} == {25.0}
    assert {value for _, value in found[2, "sm_activity"]} == {26.0}
    assert (0, "sm_activity") not in found
    assert [0, "sm_activity", "reported for its MIG instances, not for the whole"] in answer[
        "not_measured"
    ]


def test_what_is_refused_is_told_once_and_costs_nothing_else(library: Path, tmp_path: Path) -> None:
    refused = (
        "nvmlDeviceGetPowerUsage:3,nvmlDeviceGetSamples:3,nvmlGpmQueryDeviceSupport:4,"
        "nvmlDeviceGetMigMode:3,nvmlSystemGetDriverVersion:999"
    )
    answer = sample(library, tmp_path / "c", wanted=5, counter="energy", refuse=refused)
    assert sorted(answer["not_measured"]) == [
        [0, "power", "Not Supported"],
        [0, "sm_activity", "Insufficient Permissions"],
        [0, "utilization_gpu", "Not Supported"],
        [0, "utilization_memory", "Not Supported"],
    ]
    assert {name for _, name in series(answer)} == {
        "energy", "sm_clock", "sm_clock_max", "memory_used", "throttle_reasons",
    }  # fmt: skip


def test_older_drivers_are_asked_by_older_names(library: Path, tmp_path: Path) -> None:
    refused = "nvmlDeviceGetMemoryInfo_v2:13,nvmlDeviceGetCurrentClocksEventReasons:13"
    found = series(sample(library, tmp_path / "c", refuse=refused))
    assert [value for _, value in found[0, "memory_used"][:2]] == [4097.0, 8193.0]
    assert {value for _, value in found[0, "throttle_reasons"]} == {5.0}


def test_a_failure_that_passes_is_counted(library: Path, tmp_path: Path) -> None:
    answer = sample(library, tmp_path / "c", wanted=4, refuse="nvmlDeviceGetPowerUsage:999:2:4")
    assert answer["failed"] == 3
    assert [value for _, value in series(answer)[0, "power"]][:2] == [70.001, 70.002]


def test_a_counter_that_goes_on_failing_is_given_up(library: Path, tmp_path: Path) -> None:
    answer = sample(
        library, tmp_path / "c", wanted=15, counter="energy", refuse="nvmlDeviceGetPowerUsage:999:2"
    )
    assert answer["failed"] == 9
    assert [0, "power", "Unknown Error"] in answer["not_measured"]
    assert len(series(answer)[0, "power"]) == 1


def refused(gpu: int) -> dict[str, object]:
    return {"code": "nvml_gpu_refused", "detail": "GPU is lost", "count": gpu}


@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        (
            {"refuse": "nvmlInitWithFlags:9"},
            [{"code": "nvml_no_driver", "detail": "Driver Not Loaded"}],
        ),
        (
            {"refuse": "nvmlInitWithFlags:18"},
            [
                {
                    "code": "nvml_call_failed",
                    "detail": "RM has detected an NVML/RM version mismatch.",
                }
            ],
        ),
        ({"devices": "0"}, [{"code": "nvml_no_gpu"}]),
        (
            {"refuse": "nvmlDeviceGetCount_v2:999"},
            [{"code": "nvml_call_failed", "detail": "Unknown Error"}],
        ),
        ({"refuse": "nvmlDeviceGetUUID:15"}, [refused(0)]),
        ({"refuse": "nvmlDeviceGetUUID:15", "devices": "2"}, [refused(0), refused(1)]),
    ],
)
def test_a_driver_that_does_not_work_is_a_reason(
    library: Path, tmp_path: Path, settings: dict[str, str], reasons: list[dict[str, object]]
) -> None:
    answer = sample(library, tmp_path / "c", **settings)
    assert (answer["rows"], answer["unavailable"]) == ([], reasons)


def test_a_machine_without_a_driver_loads_nothing(tmp_path: Path) -> None:
    """As most machines are: one reason, no package loaded, no thread left."""
    answer = sample(tmp_path, tmp_path / "c")
    if answer["pynvml"]:
        pytest.skip("this machine has an NVIDIA driver")
    why = {"code": "no_nvidia_driver", "subject": "libnvidia-ml.so.1"}
    assert answer["unavailable"] == [why]
    assert (answer["rows"], answer["alive"]) == ([], False)


@pytest.mark.parametrize("hang", ["nvmlInitWithFlags", "nvmlDeviceGetPowerUsage:3"])
def test_a_driver_that_hangs_does_not_hang_the_end(
    library: Path, tmp_path: Path, hang: str
) -> None:
    wanted = 2 if ":" in hang else 0
    answer = sample(library, tmp_path / "c", wanted=wanted, stop_s=0.05, hang=hang)
    assert (answer["hung"], answer["ended"], answer["alive"]) == (True, False, True)
    assert len(series(answer).get((0, "power"), [])) == wanted


def test_a_full_disk_keeps_whole_lines_and_counts_the_rest(library: Path, tmp_path: Path) -> None:
    answer = sample(library, tmp_path / "c", wanted=10**6, disk="full")
    assert answer["damaged"] == 0
    assert answer["lost"] > 20
    powers = [value for _, value in series(answer)[0, "power"]]
    # Where the machine is busy, the first readings may be too many for the room that there is.
    first = round(powers[0] * 1000)
    assert powers == [(first + n) / 1000 for n in range(len(powers))]
    assert (tmp_path / "c").stat().st_size <= 2304


def test_a_folder_that_takes_no_file_is_no_error(library: Path, tmp_path: Path) -> None:
    answer = sample(library, tmp_path / "missing/c")
    assert (answer["rows"], answer["alive"]) == ([], False)
