"""Probes functions of running programs without the rest of a recording, and reads the records."""

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recording import spool_records
from rlscope_trace import _capture
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from conftest import Workload

SIMULATOR, BACKEND = 2, 3
UNWOUND, OPEN = 1, 2
MODES = ("session", "multi", "perf")
_RING_BYTES = 8 << 20
_THREAD, _CALL, _GIL_RELEASE = 1, 8, 9


@dataclass(frozen=True, order=True)
class Call:
    """One record of a call."""

    thread_id: int
    start_ns: int
    end_ns: int
    site_id: int
    layer: int
    parent_layer: int
    depth: int
    flags: int


@dataclass
class Recorded:
    """What was written until the end."""

    calls: list[Call] = field(default_factory=list)
    gil_releases: list[tuple[int, int, int]] = field(default_factory=list)
    """thread_id, start_ns, end_ns."""
    tids: dict[int, tuple[int, int]] = field(default_factory=dict)
    """thread_id: tid, tgid."""
    lost: int = 0

    def of_site(self, site_id: int, *, flags: int | None = None) -> list[Call]:
        """Return the calls of a site, in the order they began."""
        chosen = [call for call in self.calls if call.site_id == site_id]
        return sorted(
            (call for call in chosen if flags is None or call.flags == flags),
            key=lambda call: (call.thread_id, call.start_ns),
        )

    def per_thread(self, site_id: int) -> list[int]:
        """Return how many calls of a site each thread made that made one, in order."""
        threads = [call.thread_id for call in self.of_site(site_id)]
        return sorted(threads.count(thread) for thread in set(threads))


class Probing:
    """A loaded capture with the probes beside it, tracing some processes."""

    def __init__(self, directory: Path, pids: Sequence[int], *, mode: str, sites: int) -> None:
        self.directory = directory
        directory.mkdir()
        self.capture = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), _RING_BYTES)
        self.probes = _capture.NativeProbes(
            str(bpf_file("native.bpf.o")),
            threads_fd=self.capture.threads_fd,
            ring_fd=self.capture.ring_fd,
            loss_fd=self.capture.loss_fd,
            sites=sites,
            mode=mode,
        )
        self.spool = _capture.SpoolWriter(str(directory), _capture.possible_cpus())
        self.drain = _capture.Drain(self.capture.ring_fd, self.capture.loss_fd, self.spool)
        self.capture.attach()
        for pid in pids:
            self.trace(pid)
        self.drain.start()

    def trace(self, pid: int) -> None:
        """Trace a process with its threads and children."""
        fd = os.pidfd_open(pid)
        try:
            self.capture.mark(fd)
        finally:
            os.close(fd)
        self.capture.enter_existing()

    def probe(self, file: Path, names: Sequence[str], *, first_site: int = 0) -> None:
        """Probe functions of a file, with the ids from first_site on."""
        offsets = entry_offsets(file)
        self.probes.attach(
            str(file),
            [(offsets[name], first_site + i, SIMULATOR) for i, name in enumerate(names)],
        )

    def finish(self) -> Recorded:
        """Take the probes away and return what was recorded."""
        self.probes.close_open()
        self.capture.detach()
        self.drain.stop()
        recorded = read_records(self.directory / "records.bin")
        recorded.lost = self.spool.counters()["lost"]
        return recorded


@contextmanager
def probing(directory: Path, *pids: int, mode: str = "auto", sites: int = 64) -> Iterator[Probing]:
    """Trace processes; nothing is probed yet."""
    made = Probing(directory, pids, mode=mode, sites=sites)
    try:
        yield made
    finally:
        made.probes.detach()
        made.capture.detach()
        made.drain.stop()


def finish(run: Probing, program: "Workload") -> tuple[dict[str, object], Recorded]:
    """Let the program come to its end; return what it says and what was recorded."""
    program.go()
    truth = program.truth()
    recorded = run.finish()
    assert recorded.lost == 0
    assert run.probes.missed() == 0
    program.go()
    assert program.wait() == 0
    return truth, recorded


@cache
def works(mode: str) -> bool:
    """Tell whether this kernel takes a mode."""
    capture = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), 1 << 16)
    try:
        _capture.NativeProbes(
            str(bpf_file("native.bpf.o")),
            threads_fd=capture.threads_fd,
            ring_fd=capture.ring_fd,
            loss_fd=capture.loss_fd,
            sites=1,
            mode=mode,
        )
    except OSError:
        return False
    return True


def mode_of(request: pytest.FixtureRequest) -> str:
    """Return the mode that a fixture is asked for; skip where this kernel does not take it."""
    name: str = request.param
    if not works(name):
        pytest.skip(f"this kernel does not take {name} probes")
    return name


def read_records(path: Path) -> Recorded:
    """Read the call records of a spool, by the comments of bpf/records.h."""
    recorded = Recorded()
    for kind, record in spool_records(path):
        if kind == _CALL:
            _, layer, parent, thread, start, end, site, depth, flags = struct.unpack(
                "<HBBIQQIHH", record
            )
            recorded.calls.append(Call(thread, start, end, site, layer, parent, depth, flags))
        elif kind == _GIL_RELEASE:
            _, _, thread, start, end = struct.unpack("<HHIQQ", record)
            recorded.gil_releases.append((thread, start, end))
        elif kind == _THREAD:
            thread, _, _, tid, tgid = struct.unpack_from("<4xIQQII", record)
            recorded.tids[thread] = (tid, tgid)
    return recorded


def entry_offsets(file: Path) -> dict[str, int]:
    """Return the file offset of every function of an ELF file with symbols."""
    reported = subprocess.run(
        ["readelf", "--wide", "--segments", "--symbols", file],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    segments = []
    offsets = {}
    for line in reported.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            segments.append(tuple(int(word, 16) for word in (words[1], words[2], words[4])))
        elif len(words) == 8 and words[3] == "FUNC" and words[6] != "UND":
            address = int(words[1], 16)
            for offset, start, size in segments:
                if start <= address < start + size:
                    offsets[words[7]] = address - start + offset
    return offsets


def build(source: Path, output: Path, *options: str) -> Path:
    """Compile a C or C++ program of tests/workloads."""
    compiler = shutil.which("c++" if source.suffix == ".cpp" else "cc")
    assert compiler is not None
    command = [compiler, "-O1", "-g0", "-pthread", "-fno-optimize-sibling-calls"]
    subprocess.run([*command, *options, "-o", output, source], check=True)
    return output


def code_differs(pid: int, file: Path, offsets: Sequence[int]) -> list[int]:
    """Return at which of these offsets the code in a process is not that of the file."""
    original = file.read_bytes()
    different = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) < 6 or words[5] != str(file) or "x" not in words[1]:
                continue
            start, end = (int(word, 16) for word in words[0].split("-"))
            first = int(words[2], 16)
            for offset in offsets:
                if first <= offset < first + end - start:
                    memory.seek(start + offset - first)
                    if memory.read(5) != original[offset : offset + 5]:
                        different.append(offset)
    return different
