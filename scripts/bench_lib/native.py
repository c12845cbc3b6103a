"""What the exact record of one native call costs, and how fast probes come and go.

A program calls a function that does nothing: unprobed, probed in each way that this kernel takes,
and probed for somebody else (it is no traced program then), in turn and each round in another
order. The CPU time is its own: that of the collector comes on top.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import Peer
from rlscope_trace import _capture
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_lib.recorder import Bench

Point = tuple[int, int, int]

_CALLS = 20_000
_SITES = 3000
_RING_BYTES = 16 << 20
_SIMULATOR = 2
ATTACH_BUDGET_MS = 100
DETACH_BUDGET_MS = 200


class _Capture:
    """The programs in every way that loads, writing into one ring that is emptied."""

    def __init__(self, bench: Bench) -> None:
        self.programs = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), _RING_BYTES)
        self.ways: dict[str, _capture.NativeProbes] = {}
        for mode in ("session", "multi", "perf"):
            with suppress(OSError):
                self.ways[mode] = self._load(mode)
        if not self.ways:
            raise BenchError("this kernel takes no probes", hint="rlscope-trace doctor")
        folder = bench.directory / "native.spool"
        folder.mkdir(exist_ok=True)
        self._spool = _capture.SpoolWriter(str(folder), _capture.possible_cpus())
        self._drain = _capture.Drain(self.programs.ring_fd, self.programs.loss_fd, self._spool)
        self._drain.start()

    def _load(self, mode: str) -> _capture.NativeProbes:
        return _capture.NativeProbes(
            str(bpf_file("native.bpf.o")),
            threads_fd=self.programs.threads_fd,
            ring_fd=self.programs.ring_fd,
            loss_fd=self.programs.loss_fd,
            sites=_SITES,
            mode=mode,
        )

    def trace(self, pid: int) -> None:
        """Let a process be a traced one; its scheduling is not recorded."""
        fd = os.pidfd_open(pid)
        try:
            self.programs.mark(fd)
        finally:
            os.close(fd)
        self.programs.enter_existing()

    def close(self) -> None:
        """Stop emptying the ring."""
        for probes in self.ways.values():
            probes.detach()
        self._drain.stop()


def measure(bench: Bench) -> list[Figure]:
    """Return what a call costs more, and the times to attach and detach."""
    program = bench.helper("native_sites")
    peers = [Peer.start([program]) for _ in ("traced", "bystander")]
    peers[0].send("where")
    first, step = (int(word) for word in peers[0].answer().split())
    points = [(first + site * step, site, _SIMULATOR) for site in range(_SITES)]
    with closing(_Capture(bench)) as capture:
        capture.trace(peers[0].process.pid)
        figures = _calls(bench, capture, program, points[0], peers)
        figures += _attach(bench, capture, program, points)
    for peer in peers:
        peer.close()
    return figures


def _called(peer: Peer) -> float:
    """Return the CPU time of one call in ns."""
    peer.send(str(_CALLS))
    return float(peer.answer())


def _calls(
    bench: Bench, capture: _Capture, program: str, point: Point, peers: list[Peer]
) -> list[Figure]:
    plain: list[float] = []
    added: dict[str, list[float]] = {}
    modes = [*capture.ways]
    for run in range(bench.runs):
        shift = run % len(modes)
        for mode in modes[shift:] + modes[:shift]:
            without = [_called(peer) for peer in peers]
            capture.ways[mode].attach(program, [point])
            probed = [_called(peer) for peer in peers]
            capture.ways[mode].detach()
            plain.append(without[0])
            for who, before, after in zip(("traced", "bystander"), without, probed, strict=True):
                added.setdefault(f"added, {mode}, {who}", []).append(after - before)
    for mode, probes in capture.ways.items():
        if probes.counters()[point[1]][0] != bench.runs * _CALLS:
            raise BenchError(f"calls are missing in {mode} mode", hint="rlscope-trace doctor")
    return [
        Figure("call of an empty function", "ns", tuple(plain)),
        *(Figure(name, "ns per call", tuple(values)) for name, values in added.items()),
    ]


def _attach(bench: Bench, capture: _Capture, program: str, points: list[Point]) -> Iterator[Figure]:
    for mode, probes in capture.ways.items():
        chosen = points[: probes.limit]
        attach_ms, detach_ms = [], []
        for _ in range(bench.runs):
            started_s = time.monotonic()
            probes.attach(program, chosen)
            attached_s = time.monotonic()
            probes.detach()
            attach_ms.append(1e3 * (attached_s - started_s))
            detach_ms.append(1e3 * (time.monotonic() - attached_s))
        for what, values, budget in (
            ("attach", attach_ms, ATTACH_BUDGET_MS),
            ("detach", detach_ms, DETACH_BUDGET_MS),
        ):
            name = f"{what} {len(chosen):,} sites, {mode}"
            # The last resort of old kernels has no budget, but a limit.
            yield Figure(name, "ms", tuple(values), None if probes.limit else budget)
