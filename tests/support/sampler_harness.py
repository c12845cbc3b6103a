"""Samples running programs without the rest of a recording, and reads the samples."""

import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recording import spool_records
from rlscope_trace import _capture
from rlscope_trace.record.loaders.capture import bpf_file

PYTHON, SIMULATOR, SPIN, OTHER, TRANSPARENT = 1, 2, 5, 6, 0
RULES = (
    ("*/libsampled_*.so", SIMULATOR),
    ("*/libpython3*.so*", PYTHON),
    ("*/bin/python3*", PYTHON),
    ("*/lib-dynload/*", PYTHON),
    ("*/libc.so.6", TRANSPARENT),
    ("*/libm.so.6", TRANSPARENT),
    ("*/ld-linux*", TRANSPARENT),
)
BY_STACK = 2
HZ = 1999
_RING_BYTES = 8 << 20
_THREAD, _SAMPLE, _STACK = 1, 10, 11


@dataclass(frozen=True)
class Sample:
    """One record of a sample, with the text of its stack: outermost function first."""

    layer: int
    flags: int
    tid: int
    tgid: int
    ts_ns: int
    stack: tuple[str, ...]

    def is_in(self, function: str) -> bool:
        """Tell whether a function of this name was running."""
        return any(frame.startswith(f"{function} (") for frame in self.stack)


class Sampling:
    """A sampler with the capture it belongs to."""

    def __init__(self, directory: Path, pid: int, *, hz: int = HZ) -> None:
        self.directory = directory
        self.capture = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), _RING_BYTES)
        self.spool = _capture.SpoolWriter(str(directory), _capture.possible_cpus())
        self.drain = _capture.Drain(self.capture.ring_fd, self.capture.loss_fd, self.spool)
        self.sampler = _capture.Sampler(
            str(bpf_file("sample.bpf.o")),
            threads_fd=self.capture.threads_fd,
            loss_fd=self.capture.loss_fd,
            hz=hz,
            spool=self.spool,
            rules=RULES,
        )
        self.capture.attach()
        fd = os.pidfd_open(pid)
        try:
            self.capture.mark(fd)
        finally:
            os.close(fd)
        self.capture.enter_existing()
        self.drain.start()
        self.sampler.start()

    def note_python(self, pid: int) -> dict[str, Any]:
        """Let the Python functions of a process be sampled; return where its interpreter is."""
        runtime = _capture.PythonScan(pid).runtime()
        assert runtime is not None
        assert self.sampler.note_python(pid, runtime) is None
        return runtime

    def finish(self) -> list[Sample]:
        """Stop, and return what was sampled."""
        self.sampler.stop()
        self.capture.detach()
        self.drain.stop()
        samples = read_samples(self.directory / "records.bin")
        assert len(samples) == self.sampler.counters()["samples"]
        return samples


@contextmanager
def sampling(directory: Path, pid: int) -> Iterator[Sampling]:
    """Sample a process with its threads and children."""
    made = Sampling(directory, pid)
    try:
        yield made
    finally:
        made.sampler.stop()
        made.capture.detach()
        made.drain.stop()


def read_samples(path: Path) -> list[Sample]:
    """Read the samples of a spool, by the comments of bpf/records.h."""
    tids: dict[int, tuple[int, int]] = {}
    stacks: dict[int, tuple[str, ...]] = {0: ()}
    raw: list[tuple[int, int, int, int, int]] = []
    for kind, record in spool_records(path):
        if kind == _SAMPLE:
            raw.append(struct.unpack("<HBBIQII", record)[1:6])
        elif kind == _STACK:
            _, text_bytes, stack_id = struct.unpack_from("<HHI", record)
            assert stack_id not in stacks
            assert len(record) == 8 + text_bytes
            assert record.endswith(b"\n")
            stacks[stack_id] = tuple(record[8:].decode().splitlines())
        elif kind == _THREAD:
            fields = struct.unpack_from("<HBBIQQIIII", record)
            tids[fields[3]] = fields[8], fields[9]
    return [
        Sample(layer, flags, *tids[thread], ts_ns, stacks[stack])
        for layer, flags, thread, ts_ns, stack in raw
    ]


def share(samples: Sequence[Sample], chosen: Callable[[Sample], bool]) -> float:
    """Return the part of the samples that are chosen, 0 to 1."""
    return sum(map(chosen, samples)) / len(samples)


def error(part: float, samples: Sequence[Sample]) -> float:
    """Return how far from the truth such a part may be by chance: once in a million."""
    return 5 * math.sqrt(part * (1 - part) / len(samples)) + 0.01
