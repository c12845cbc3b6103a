"""What the targets start from: small files like real ones, by the builders of the tests."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fuzz_lib.memory_image import memory_image
from fuzz_lib.targets import REPOSITORY, FuzzError
from rlscope_trace.spool.costs import Cost, dump_costs

sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from shim_builder import ShimBuilder
from spool_builder import SpoolBuilder

# Of a real recording: the beginning of each file is like the rest.
_RECORDED_BYTES = 24 * 1024
_RECORDING_S = 30

_SMALL_LIBRARY = """
int rls_counter; extern int rls_other(int);
int rls_a(int n) { for (int i = 0; i < n; ++i) rls_counter += rls_other(i); return rls_counter; }
int rls_b(int n) { return n == 0 ? 1 : rls_b(n - 1) * n; }
"""


def write(folder: Path) -> None:
    """Write the seeds of each target into a folder of its name."""
    # What stands behind a file in an input is read from its end: see the harness of each.
    for name, files in (
        ("spool_records", {"threads": _records() + bytes(8) + b"\1\0\0"}),
        ("shim_spool", {"ranges": _shim() + b"\0\0"}),
        ("process", {"python": memory_image()}),
        ("elf", {"library": _library(), "python": memory_image()}),
        ("kineto", _kineto()),
        ("text", _texts()),
        ("sidecars", _sidecars()),
    ):
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            (target / file).write_bytes(data)


def _records() -> bytes:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.thread(2, ts_ns=110, tid=11, tgid=10, creator=1)
    spool.cycle(1, off_ns=100, wake_ns=0, in_ns=110, out_ns=150, out_reason=203 << 48 | 70)
    spool.cycle(2, off_ns=110, wake_ns=120, in_ns=130, out_ns=140, waker=1)
    spool.cycle(1, off_ns=150, wake_ns=160, in_ns=170, out_ns=180)
    spool.call(1, start_ns=112, end_ns=120)
    spool.sample(1, ts_ns=115, layer=1, stack=1)
    spool.stack(1, b"main (train.py:1)\n")
    spool.other_run(0, start_ns=160, end_ns=170, pid=7)
    spool.quota(1, ts_ns=160)
    spool.close(1, off_ns=180)
    with tempfile.TemporaryDirectory() as directory:
        spool.write(Path(directory) / "spool", end_ns=200)
        return (Path(directory) / "spool" / "records.bin").read_bytes()


def _shim() -> bytes:
    shim = ShimBuilder()
    shim.source(pid=10, inner_pid=1)
    shim.thread(tid=10, ts_ns=100)
    shim.range("step", 110, 120)
    shim.range("inside", 112, 115, depth=1)
    shim.category(3, "third")
    shim.range("step", 130, 140, category=3)
    shim.call(10, 111, 113)
    shim.open(("open", 150), ts_ns=160)
    shim.counters(dropped=2)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "spool"
        folder.mkdir()
        shim.write(folder)
        return (folder / "shim.bin").read_bytes()


def _library() -> bytes:
    """Return a small shared library as clang makes it."""
    with tempfile.TemporaryDirectory() as directory:
        source, made = Path(directory) / "small.c", Path(directory) / "small.so"
        source.write_text(_SMALL_LIBRARY)
        command = ["clang", "-Os", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code"]
        subprocess.run([*command, "-o", str(made), str(source)], check=True, capture_output=True)
        return made.read_bytes()


def _kineto() -> dict[str, bytes]:
    text = gzip.decompress(
        (REPOSITORY / "tests" / "data" / "kineto" / "alexnet.json.gz").read_bytes()
    )
    trace = json.loads(text)
    # Some of each kind, with what stands around them.
    events: dict[tuple[object, object], list[object]] = {}
    for event in trace["traceEvents"]:
        events.setdefault((event.get("ph"), event.get("cat")), []).append(event)
    trace["traceEvents"] = [event for found in events.values() for event in found[:2]]
    small = json.dumps(trace).encode()
    return {"small.json": small, "small.json.gz": gzip.compress(small, mtime=0)}


def _texts() -> dict[str, bytes]:
    maps = Path("/proc/self/maps").read_bytes()[:2048]
    status = Path("/proc/self/status").read_bytes()
    code = memory_image()[:256]
    texts = (maps, status, b"1234.5678e3", code, code, b"cudaLaunchKernel_v2", "é€😀".encode(), b"")
    return {f"kind{number}": bytes([number]) + text for number, text in enumerate(texts)}


def _sidecars() -> dict[str, bytes]:
    """Return one file of each kind, behind the number that says which: see sidecars.py."""
    counters = [
        {"format": 1, "lost": [0, 0], "failed": [0, 0], "ended": True},
        {"interval_ms": 100, "driver": "550"},
        {"uuid": "GPU-a", "index": 0, "name": "H200"},
        {"device": 0, "not_measured": "power", "reason": "no"},
        [0, 150, {"utilization": 50.0}],
    ]
    probes = [
        {"event": "site", "site_id": 1, "module": "/lib/mujoco.so", "symbol": "mj_step",
         "file_offset": 16, "layer": "simulator", "kind": "function"},
        {"event": "dropped", "site_id": 1, "code": "too_expensive",
         "numbers": [1.0, 5, 10, 0.3, 0.3, 0.02], "ts_ns": 300},
        {"event": "hits", "site_id": 1, "hits": 5, "time_ns": 50},
        {"event": "python", "pid": 10, "ts_ns": 150, "version": [3, 11, 2],
         "module": "/bin/python3", "gil_start": 1, "gil_end": 2},
        {"event": "gil", "module": "/bin/python3", "fact": None},
        {"event": "title", "pid": 10, "ts_ns": 160, "title": "ray::Worker.step()"},
        {"event": "held_up", "pid": 10, "ts_ns": 170},
        {"event": "failed", "reason": "it broke"},
    ]  # fmt: skip
    cost = Cost(event="switch", part=None, how="loop", n=5, mean_ns=10.0)
    calibration = dump_costs([cost], {"key": {"cpu": "x"}})
    session = {"recorder_pid": os.getpid(), "recorder_starttime": "1", "host": "box"}
    with tempfile.TemporaryDirectory() as directory:
        spool = SpoolBuilder()
        spool.thread(1, ts_ns=100, tid=10)
        spool.write(Path(directory) / "spool", end_ns=200)
        progress = (Path(directory) / "spool" / "progress.bin").read_bytes()
    files = (
        _lines(counters), _lines(probes), calibration.encode(), json.dumps(session).encode(),
        progress, _records(), Path("/proc/self/stat").read_bytes(), b"HOME=/root\0PATH=/bin\0",
    )  # fmt: skip
    return {f"kind{number}": bytes([number]) + data for number, data in enumerate(files)}


def _lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def record(folder: Path) -> None:
    """Record a program for real and keep what its spool holds; FuzzError where that fails."""
    command = shutil.which("rlscope-trace", path=str(Path(sys.executable).parent))
    if os.geteuid() != 0 or command is None:
        raise FuzzError("recording a corpus needs root", "sudo scripts/fuzz --make-corpus")
    with tempfile.TemporaryDirectory(prefix="rlscope-fuzz-") as directory:
        recorder = subprocess.Popen(
            [command, "record", "-o", f"{directory}/trace.duckdb", "--",
             sys.executable, str(REPOSITORY / "tests" / "workloads" / "pingpong.py"),
             "--round-trips", "1000000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            spool = _spool_in(Path(directory))
        finally:
            os.killpg(recorder.pid, signal.SIGKILL)  # so that it leaves the spool
            recorder.wait()
        _keep(spool, folder)


def _spool_in(directory: Path) -> Path:
    until_s = time.monotonic() + _RECORDING_S
    while time.monotonic() < until_s:
        for records in directory.rglob("records.bin"):
            if records.stat().st_size > _RECORDED_BYTES:
                return records.parent
        time.sleep(0.05)
    raise FuzzError("nothing was recorded", "rlscope-trace doctor")


def _keep(spool: Path, folder: Path) -> None:
    for name, target, tail in (
        ("records.bin", "spool_records", struct.pack("<q3B", 0, 1, 0, 0)),
        ("shim.bin", "shim_spool", b"\0\0"),
    ):
        if (spool / name).exists():
            (folder / target).mkdir(parents=True, exist_ok=True)
            data = (spool / name).read_bytes()[:_RECORDED_BYTES]
            (folder / target / "recorded").write_bytes(data + tail)
