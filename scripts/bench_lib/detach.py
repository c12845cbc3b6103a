"""Whether a recorder leaves BPF programs, links or maps behind, however it ends."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from bench_lib import bpf_objects
from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import Peer, Recorder

if TYPE_CHECKING:
    from bench_lib.bpf_objects import Objects
    from bench_lib.recorder import Bench

# The OS kernel frees programs after a grace period, and other recorders on the machine may end.
_DEADLINE_S = 20
_LOOK_EVERY_S = 0.1


def measure(bench: Bench) -> list[Figure]:
    """Return how many objects are left after a stop, after a kill, and after a launched program."""
    idle = Peer.start(["sh", "-c", "echo ready; read -r line"])
    try:
        figures = [
            _after_attach(bench, idle.process.pid, "stop"),
            _after_attach(bench, idle.process.pid, "kill -9"),
        ]
    finally:
        idle.close()
    return [*figures, _after_launch_and_kill(bench)]


def _after_attach(bench: Bench, pid: int, way: str) -> Figure:
    before = bpf_objects.existing()
    recorder = bench.attach(pid, bench.directory / f"detach-{way.partition(' ')[0]}.duckdb")
    ours = _made_since(before, recorder)
    if way == "stop":
        recorder.stop()
    else:
        recorder.kill()
    return _left(ours, f"left after {way}")


def _after_launch_and_kill(bench: Bench) -> Figure:
    """Return what is left where the program lives on: it must hold none of it open."""
    before = bpf_objects.existing()
    arguments = ["-o", str(bench.directory / "detach-launch.duckdb"), "--"]
    recorder = Recorder.start(bench, [*arguments, "sh", "-c", "echo $$; exec sleep 600"])
    said = recorder.process.stdout.readline() if recorder.process.stdout else ""
    if not said:
        raise BenchError("the launched program did not start", hint="rlscope-trace doctor")
    try:
        ours = _made_since(before, recorder)
        recorder.kill()
        return _left(ours, "left after kill -9, launched")
    finally:
        os.kill(int(said), signal.SIGKILL)


def _made_since(before: Objects, recorder: Recorder) -> Objects:
    """Return what has come since, less what only other processes hold."""
    held_by = bpf_objects.holders()
    pid = recorder.process.pid
    made = {
        key: name
        for key, name in bpf_objects.existing().items()
        if key not in before and (pid in held_by.get(key, {pid}))
    }
    if not any(kind == "prog" for kind, _ in made):
        raise BenchError("bpftool sees no program of a live recorder", hint="bpftool prog show")
    return made


def _left(ours: Objects, name: str) -> Figure:
    deadline_s = time.monotonic() + _DEADLINE_S
    left = ours
    while left and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)
        now = bpf_objects.existing()
        left = {key: value for key, value in ours.items() if key in now}
    names = ", ".join(f"{kind} {number} {value}" for (kind, number), value in left.items())
    return Figure(name, "objects", (len(left),), 0, note=names or f"{len(ours)} while it traced")
