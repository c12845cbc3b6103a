"""A small spool with records of every sort, and ways to damage its files: all by a seed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import shim_builder as shims
import spool_builder as spools
from known_costs import COSTS
from rlscope_trace.spool.costs import dump_costs
from rlscope_trace.spool.counter_file import CounterFile
from shim_builder import ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    import random
    from pathlib import Path

SECOND = 1_000_000_000
BEGIN, FINISH = SECOND, 4 * SECOND
PIDS = (100, 200)
FILES = (
    "records.bin", "progress.bin", "shim.bin", "probes.jsonl", "session.json", "counters.jsonl",
    "calibration.json", "os_counters.jsonl",
)  # fmt: skip
_NUMBERS = (0, 1, 100, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null')
_VALUES = (
    b"NaN", b"1e400", b"-1", b"9" * 30, b"null", b"true", b"[]", b"{}", b'"x"', b'"\\ud800"',
    b'"\\u0000"', b'"' + b"x" * 200_000 + b'"', b"[" * 50_000, b"0.5", b"[null]", b'{"a": []}',
)  # fmt: skip
_SESSION: dict[str, object] = {
    "machine": "x86_64", "capture": "btf", "ring_mib": 32, "nvml": True,
    "probe_settings": {
        "layers": ["simulator", "backend", "cuda_api"], "sample_hz": 99, "gil": "full",
        "cuda_calls": "auto", "call_probes": "session", "not_measured": {},
    },
    "gpu": {"measured": True, "fact": {"code": "cupti"}},
    "operations": {"measured": True, "fact": None},
    "operations_late": [{"pid": 200, "measured": True, "fact": {"code": "late_open_ranges"}}],
    "shim_taken_pids": [200], "shim_refused_pids": [200],
    "ray": {
        "node": {"node_id": "a", "address": "10.0.0.1", "host": "box", "is_head": True},
        "raylet_pid": 100, "hidden_jobs": ["09000000"],
        "processes": [{"pid": 200, "kind": "actor", "job_id": "01000000", "actor_class": "A"}],
    },
}  # fmt: skip


def build(folder: Path) -> Path:
    """Write the spool of two processes of two threads each, all files of it."""
    spool = SpoolBuilder()
    spool.clock(BEGIN, 1_700_000_000 * SECOND, BEGIN)
    threads = [(pid, pid + place) for pid in PIDS for place in range(2)]
    for thread_id, (pid, tid) in enumerate(threads, 1):
        spool.thread(thread_id, ts_ns=BEGIN, tid=tid, tgid=pid, creator=1 if pid > 100 else 0)
        spool.name(thread_id, b"trainer", ts_ns=BEGIN + 1)
        spool.exec(thread_id, ts_ns=BEGIN + 2, tid=tid, args=b"python\0train.py\0")
    for at_ns in range(BEGIN, FINISH - SECOND, SECOND // 5):
        for thread_id in range(1, 5):
            _cycle(spool, thread_id, at_ns)
    spool.stack(1, b"main (train.py:1)\nstep (train.py:2)\n")
    for thread_id in range(1, 4):
        spool.close(thread_id, off_ns=FINISH - SECOND)
    spool.exit(4, ts_ns=FINISH - SECOND, status=0, tgid=200)
    spool.write(
        folder, end_ns=FINISH, session=_SESSION, probes=_probes(),
        ring_losses={(0, 2): (5, BEGIN)}, spool_losses={8: (2, BEGIN)},
    )  # fmt: skip
    _shims().write(folder)
    facts: dict[str, object] = {"key": {"machine": "m"}, "extent": "full"}
    (folder / "calibration.json").write_text(dump_costs(COSTS, facts))
    _write_os_counters(folder)
    _write_counters(folder)
    return folder


def damage(data: bytes, source: random.Random, *, is_text: bool) -> bytes:
    """Return the content of a file as a bad disk, a kill or a hostile program may leave it."""
    ways = ["flip", "bytes", "number", "cut", "extend", "zero", "swap"]
    way = source.choice(ways + ["token"] * 5 * is_text)
    at = source.randrange(len(data))
    changed = bytearray(data)
    if way == "flip":
        changed[at] ^= 1 << source.randrange(8)
    elif way == "bytes":
        for _ in range(source.randrange(1, 40)):
            changed[source.randrange(len(data))] = source.randrange(256)
    elif way == "number":
        size = source.choice([2, 4, 8])
        at = at // size * size
        number = source.choice(_NUMBERS) % 2 ** (8 * size)
        changed[at : at + size] = number.to_bytes(size, "little")
    elif way == "cut":
        del changed[at:]
    elif way == "extend":
        changed += source.randbytes(source.randrange(1, 5000))
    elif way == "zero":
        size = min(source.choice([8, 64, 4096]), len(data) - at)
        changed[at : at + size] = bytes(size)
    elif way == "swap":
        other = source.randrange(len(data))
        changed[at : at + 64], changed[other : other + 64] = (
            changed[other : other + 64], changed[at : at + 64],
        )  # fmt: skip
    else:
        token = source.choice(list(_TOKEN.finditer(data)))
        changed[token.start() : token.end()] = source.choice(_VALUES)
    return bytes(changed)


def _cycle(spool: SpoolBuilder, thread_id: int, at_ns: int) -> None:
    step = SECOND // 100
    spool.cycle(
        thread_id, off_ns=at_ns, wake_ns=at_ns + step, in_ns=at_ns + 2 * step,
        out_ns=at_ns + SECOND // 5, out_reason=spools.reason(202, detail=0x5500), waker=1,
    )  # fmt: skip
    layer = 2 + thread_id % 3
    spool.call(
        thread_id, start_ns=at_ns + 3 * step, end_ns=at_ns + 5 * step, site=layer - 1, layer=layer
    )
    spool.gil_release(thread_id, start_ns=at_ns + 6 * step, end_ns=at_ns + 7 * step)
    spool.sample(thread_id, ts_ns=at_ns + 8 * step, layer=1, stack=1)
    spool.other_run(0, start_ns=at_ns, end_ns=at_ns + step, pid=7)
    spool.quota(thread_id, ts_ns=at_ns + step)
    spool.message(thread_id, sender=1, sent_ns=at_ns + step, read_ns=at_ns + 2 * step)
    spool.title(thread_id, ts_ns=at_ns + 3 * step, title=b"ray::A.play")
    spool.title(thread_id, ts_ns=at_ns + 6 * step, title=b"ray::A")


def _shims() -> ShimBuilder:
    made = ShimBuilder()
    for pid in PIDS:
        made.slot = 0
        made.source(pid=pid)
        made.thread(tid=pid, ts_ns=BEGIN)
        made.category(3, "kind")
        for at_ns in range(BEGIN, FINISH - SECOND, SECOND // 5):
            made.range("inner", at_ns + 1000, at_ns + 2000, depth=1, category=3, payload_type=2)
            made.range("learn", at_ns + 500, at_ns + 4000, domain="rlscope")
            made.range("step", at_ns, at_ns + 5000, flags=1, color=0xFF00FF00)
        made.event(shims.START, "download", BEGIN + 10, 0, id=7)
        made.event(shims.END, "download", 0, BEGIN + 20, id=7)
        made.event(shims.MARK, "mark", BEGIN + 30, 0)
        made.flush()
        made.slot = 1
        made.thread(tid=pid + 1, ts_ns=BEGIN)
        _gpu(made, pid)
        made.counters(dropped=3)
        made.open(("outer", BEGIN + 100), ("inner", BEGIN + 200), ts_ns=FINISH)
    return made


def _gpu(made: ShimBuilder, pid: int) -> None:
    made.status(ts_ns=BEGIN)
    made.device(0, "H200")
    made.named(1, None, "context")
    made.named(1, 7, "stream")
    made.clock(BEGIN, 1_700_000_000 * SECOND)
    for number, at_ns in enumerate(range(BEGIN, FINISH - SECOND, SECOND // 5), 1):
        made.call(pid, at_ns + 100, at_ns + 500, correlation=number)
        made.activity(at_ns + 600, at_ns + 9000, "_Z3addii", correlation=number, stream=7)
        made.activity(at_ns + 9600, at_ns + 9900, work=shims.MEMCPY, detail=1, size=100)
    made.overhead(1, BEGIN + 5, BEGIN + 6, tid=pid)
    made.memory(BEGIN + 7, 100, 4096, release=False)
    made.lost(1, 5, ts_ns=BEGIN + 8)


def _probes() -> list[dict[str, object]]:
    sites = [("simulator", "mj_step"), ("backend", "add"), ("cuda_api", "cudaLaunchKernel")]
    lines: list[dict[str, object]] = [
        {
            "event": "site", "site_id": number, "module": f"/lib/lib{layer}.so", "symbol": symbol,
            "layer": layer, "file_offset": 16, "state": "probed", "ts_ns": BEGIN + 1,
        }
        for number, (layer, symbol) in enumerate(sites, 1)
    ]  # fmt: skip
    at = {"pid": 100, "ts_ns": BEGIN + 2}
    return [
        *lines,
        {"event": "dropped", "site_id": 2, "code": "refused", "ts_ns": BEGIN + 5},
        {"event": "hits", "site_id": 1, "hits": 100, "time_ns": 12345},
        {"event": "python", **at, "version": [3, 11, 2], "implementation": "cpython",
         "free_threaded": False, "interpreters": 1, "runtime_start": 1, "runtime_end": 9},
        {"event": "nvtx_package", **at},
        {"event": "cuda", **at, "state": "probed", "files": ["libcudart.so"], "blind": [],
         "reason": None},
        {"event": "unscanned", "pid": 100, "bytes": 12345678},
        {"event": "rejected", "reason": "not a function", "count": 4},
        {"event": "losses", "unmatched": 2, "too_deep": 1},
        {"event": "gil", "module": "/usr/bin/python", "fact": None},
    ]  # fmt: skip


def _write_os_counters(folder: Path) -> None:
    file = CounterFile(folder / "os_counters.jsonl")
    for at_ns in range(BEGIN, FINISH, SECOND // 5):
        file.write([[at_ns, "system", None, {"memory_stall_some": at_ns}]], ts_ns=1, readings=1)
        file.write([[at_ns, "process", 100, {"minor_faults": 5}]], ts_ns=1, readings=1)
    file.close()


def _write_counters(folder: Path) -> None:
    file = CounterFile(folder / "counters.jsonl")
    reported: list[object] = [
        {"interval_ms": 100, "driver": "580.1"},
        {"uuid": "GPU-a", "index": 0, "name": "H200"},
        {"not_measured": "fan", "device": 0, "reason": "no fan"},
        *([0, at_ns, {"power": 70.5}] for at_ns in range(BEGIN, FINISH, SECOND // 5)),
    ]
    for line in reported:
        file.write([line], ts_ns=1, readings=1)
    file.is_ended = True
    file.update_header()
    file.close()
