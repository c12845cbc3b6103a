"""Probes a function of the C library in a child, and counts its calls: exact on every kernel."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

from rlscope_trace import _capture
from rlscope_trace.record.loaders.capture import bpf_file

CALLS = 500
SITE = 3
_SIMULATOR = 2
_RING_BYTES = 1 << 20


def expected_mode() -> str:
    """Return how this kernel can be probed at best."""
    major, minor = (int(word) for word in platform.release().split(".")[:2])
    if (major, minor) >= (6, 13):
        return "session"
    return "multi" if (major, minor) >= (6, 6) else "perf"


def judge_calls() -> tuple[list[str], str]:
    """Count the calls of a child; return what is wrong, and a word on what was done."""
    capture = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), _RING_BYTES)
    probes = _capture.NativeProbes(
        str(bpf_file("native.bpf.o")),
        threads_fd=capture.threads_fd,
        ring_fd=capture.ring_fd,
        loss_fd=capture.loss_fd,
        sites=SITE + 1,
    )
    function = ctypes.CDLL(None).labs
    go, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready)
        os.read(go, 1)
        wrong = sum(function(-7) != 7 for _ in range(CALLS))
        os._exit(1 if wrong else 0)
    pidfd = os.pidfd_open(pid)
    capture.mark(pidfd)
    capture.enter_existing()
    path, offset = place_of(ctypes.cast(function, ctypes.c_void_p).value or 0)
    probes.attach(path, [(offset, SITE, _SIMULATOR)])
    os.write(ready, b"\n")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    probes.close_open()
    found = {
        "exit code": (status, 0),
        "mode": (probes.mode, expected_mode()),
        "calls": (probes.counters().get(SITE, (0, 0))[0], CALLS),
        "unmatched": (probes.unmatched, 0),
        "missed": (probes.missed(), 0),
    }
    for fd in (go, ready, pidfd):
        os.close(fd)
    wrong = [f"{what} is {is_}, not {should}" for what, (is_, should) in found.items()
             if is_ != should]  # fmt: skip
    return wrong, f"{CALLS} calls by {probes.mode} probes"


def place_of(address: int) -> tuple[str, int]:
    """Return the file in which this address of our own lies, and where in it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        start, end = (int(word, 16) for word in words[0].split("-"))
        if start <= address < end:
            return words[5], address - start + int(words[2], 16)
    raise RuntimeError(f"no file at {address:x}")
