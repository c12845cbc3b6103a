"""What samples cost: the program that is sampled, a tick in the OS kernel, and the collector.

A Python program that computes a fixed number of steps runs without samples and with them, in turn:
the difference of its CPU time is what the ticks take from it. BPF run time and the CPU time of the
collector's thread are read beside it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib import bpf_objects
from bench_lib.figure import Figure
from bench_lib.recorder import Peer
from rlscope_trace import _capture
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

RATES_HZ = (99, 999)
_RING_BYTES = 16 << 20
_RULES = (("*/libpython3*", 1), ("*/bin/python3*", 1), ("*/libc.so.6", 0), ("*/libm.so.6", 0))
_STEPS = 300_000
_PROGRAM = f"""
import sys, time
def step(n):
    return sum(i * i for i in range(n)) if n else 0
def turn():
    begin = time.process_time_ns()
    for _ in range({_STEPS}):
        step(3)
    return time.process_time_ns() - begin
print("ready", flush=True)
for line in sys.stdin:
    print(turn(), flush=True)
"""


class _Target:
    """The program, and what traces it: its scheduling is not recorded."""

    def __init__(self, bench: Bench) -> None:
        self.peer = Peer.start([*bench.pinned(), bench.python, "-c", _PROGRAM])
        self.capture = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), _RING_BYTES)
        fd = os.pidfd_open(self.peer.process.pid)
        try:
            self.capture.mark(fd)
        finally:
            os.close(fd)
        self.capture.enter_existing()
        folder = bench.directory / "sampler.spool"
        folder.mkdir()
        self.spool = _capture.SpoolWriter(str(folder), _capture.possible_cpus())
        self.runtime = _capture.PythonScan(self.peer.process.pid).runtime()

    def turn(self) -> float:
        """Return the CPU time of all steps, in ns."""
        self.peer.send("turn")
        return float(self.peer.answer())

    def sampled_turn(self, hz: int) -> _Turn:
        """Take a turn with samples."""
        sampler = _capture.Sampler(
            str(bpf_file("sample.bpf.o")),
            threads_fd=self.capture.threads_fd,
            loss_fd=self.capture.loss_fd,
            hz=hz,
            spool=self.spool,
            rules=_RULES,
        )
        if self.runtime is not None:
            sampler.note_python(self.peer.process.pid, self.runtime)
        before = _threads()
        sampler.start()
        (collector,) = _threads() - before
        cpu_ns = self.turn()
        bpf_ns = bpf_objects.run_time_ns(os.getpid(), "on_tick")
        collector_ns = _cpu_ns(collector)
        samples = sampler.counters()["samples"]
        sampler.stop()
        return _Turn(cpu_ns, bpf_ns, collector_ns, samples)

    def close(self) -> None:
        """End the program."""
        self.peer.close()


@dataclass(frozen=True, slots=True)
class _Turn:
    """CPU time of the program and of the collector's thread, run time of the BPF program, in ns."""

    cpu_ns: float
    bpf_ns: float
    collector_ns: float
    samples: int


def measure(bench: Bench) -> list[Figure]:
    """Return what samples cost at each rate, in turn with none."""
    target = _Target(bench)
    bare: list[float] = []
    sampled: dict[int, list[_Turn]] = {hz: [] for hz in RATES_HZ}
    try:
        target.turn()
        # The OS kernel's own count of BPF run time would be part of the cost: it has its own turns.
        for _ in range(bench.runs):
            bare.append(target.turn())
            for hz, turns in sampled.items():
                turns.append(target.sampled_turn(hz))
        with bpf_objects.run_time_counted():
            counted = [target.sampled_turn(RATES_HZ[-1]) for _ in range(bench.runs)]
    finally:
        target.close()
    ticks_us = tuple(turn.bpf_ns / turn.samples / 1e3 for turn in counted)
    figures = [Figure("BPF per sample", "us", ticks_us)]
    for hz, turns in sampled.items():
        figures += _figures(hz, bare, turns)
    return figures


def _figures(hz: int, bare: list[float], turns: list[_Turn]) -> list[Figure]:
    parts = tuple(
        100 * (turn.cpu_ns / before - 1) for before, turn in zip(bare, turns, strict=True)
    )
    per_sample_us = tuple(
        (turn.cpu_ns - before) / turn.samples / 1e3
        for before, turn in zip(bare, turns, strict=True)
    )
    per_step_ns = tuple(
        (turn.cpu_ns - before) / _STEPS for before, turn in zip(bare, turns, strict=True)
    )
    collected_us = tuple(turn.collector_ns / turn.samples / 1e3 for turn in turns)
    return [
        Figure(f"program at {hz} Hz", "% CPU time", parts),
        Figure(f"program per step at {hz} Hz", "ns", per_step_ns),
        Figure(f"program per sample at {hz} Hz", "us", per_sample_us),
        Figure(f"collector per sample at {hz} Hz", "us", collected_us),
    ]


def _threads() -> set[int]:
    """Return the threads of this process."""
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


def _cpu_ns(tid: int) -> float:
    """Return the CPU time of a thread of this process."""
    return float(Path(f"/proc/self/task/{tid}/schedstat").read_text().split()[0])
