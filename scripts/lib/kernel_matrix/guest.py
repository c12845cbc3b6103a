"""Runs inside the virtual machines of scripts/kernel_matrix: records workload.py, judges it.

guest.py              every backend, the native probes; a line each: `result BACKEND ok|failed ...`
guest.py CASE         one of them, with the rights that the command keeps of root's
guest.py --verifier   loads the sched objects with libbpf's own words on stderr
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import workload
from native_calls import judge_calls
from records import read_records
from verdict import Verdict

from rlscope_trace import rights
from rlscope_trace.errors import TracerError
from rlscope_trace.record.backends import open_capture
from rlscope_trace.record.launch import launch
from rlscope_trace.record.loaders.capture import bpf_file
from rlscope_trace.record.probes.settings import ProbeSettings
from rlscope_trace.record.session import Session
from rlscope_trace.spool.directory import open_spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_trace.record.backends import Backend, Opened
    from rlscope_trace.record.session import Counters

FOLDER = Path("/tmp/spool")
BTF_FOLDER = Path("/sys/kernel/btf")
RING_BYTES = 4 << 20
RUN_SECONDS = 60.0
# Plain tracepoint programs are skipped on a CPU that is inside another BPF program or a map access
# of a BPF user, and with PREEMPT_RT any program is that interrupts itself: it can be preempted. The
# product tells of it, and here such a recording is made again.
RECORDINGS = 3
IS_PREEMPT_RT = Path("/sys/kernel/realtime").exists()
# Tracepoints that came with Linux 6.3.
_HAS_SOCKETS = tuple(map(int, platform.release().split(".")[:2])) >= (6, 3)


def record(backend: Backend | None) -> tuple[Opened, Counters, dict[str, Any]]:
    """Record the workload with a backend (None: the best that works) into FOLDER.

    Returns what was loaded, what was counted, and how it was probed.
    """
    subprocess.run(["/bin/busybox", "rm", "-rf", FOLDER], check=True)
    FOLDER.mkdir()
    opened = open_capture(loader="libbpf", backend=backend, ring_bytes=RING_BYTES)
    session = Session(
        opened, FOLDER, {}, shim_session="kernel-matrix", probe_settings=ProbeSettings()
    )
    command = [sys.executable, workload.__file__]
    launched = launch(command, identity=None, environment=dict(os.environ))
    try:
        session.start([launched])
        launched.release()
        code = launched.wait(RUN_SECONDS)
        counters = session.stop()
    finally:
        launched.close()
    if code != 0:
        raise RuntimeError(f"the workload ended with {code} (None: not after {RUN_SECONDS:.0f} s)")
    return opened, counters, cast("dict[str, Any]", session.facts["probe_settings"])


def judge(backend: Backend | None, *, attempts: int = RECORDINGS) -> tuple[list[str], str]:
    """Record with a backend; return what is wrong, and a word on the recording."""
    opened, counters, probe_settings = record(backend)
    progress = open_spool(FOLDER).progress
    may_miss = opened.backend == "tracefs" or IS_PREEMPT_RT
    if progress and progress.missed_runs and may_miss and attempts > 1:
        return judge(backend, attempts=attempts - 1)
    truth = json.loads(workload.TRUTH_FILE.read_text())
    threads = read_records(FOLDER / "records.bin")
    verdict = Verdict(threads, truth, btf=opened.backend == "btf", preempt_rt=IS_PREEMPT_RT)
    verdict.expect("backend", opened.backend, backend or "tracefs")
    for name in ("lost", "write_error"):
        verdict.expect(name, getattr(counters, name), 0)
    verdict.expect("failed_updates", getattr(progress, "failed_updates", None), 0)
    missed = getattr(progress, "missed_runs", None)
    if not IS_PREEMPT_RT or missed is None:
        verdict.expect("missed_runs", missed, 0)
    missing = {"early_message:pipe"}  # --messages all asks for them
    if opened.backend != "btf":
        missing |= {"native_call", "cpu_sample", "early_message:socket"}
    elif not _HAS_SOCKETS:
        missing |= {"early_message:socket"}
    verdict.expect("not measured", set(probe_settings["not_measured"]), missing)
    reported = f"{counters.records} records of {len(threads)} threads"
    if missed:
        reported += f", {missed} runs of probes skipped and counted"
    return verdict.findings, f"{reported}, calls by {probe_settings.get('call_probes', 'nothing')}"


def hide_btf() -> None:
    """Make this kernel look like one built without BTF."""
    subprocess.run(["/bin/busybox", "mount", "-t", "tmpfs", "none", BTF_FOLDER], check=True)


def tell(line: str) -> None:
    """Write one line to the console at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


CASES: dict[str, Callable[[], tuple[list[str], str]]] = {
    "btf": partial(judge, "btf"),
    "native": judge_calls,
    "tracefs": partial(judge, "tracefs"),
    "no-btf": partial(judge, None),
}


def run_backends() -> None:
    """Judge every backend, one line each; whatever goes wrong in one says nothing of the next."""
    for name in CASES:
        if name == "no-btf":
            hide_btf()
        # In a process of its own: rights that were given up cannot be had back.
        subprocess.run([sys.executable, __file__, name], check=False)


def run_case(name: str) -> None:
    """Judge one, as the command would record."""
    started_s = time.monotonic()
    rights.own_process()
    rights.become_recorder(None)
    try:
        findings, words = CASES[name]()
    except (OSError, RuntimeError, TracerError) as error:
        findings, words = [" ".join(str(error).split())], ""
        subprocess.run([sys.executable, __file__, "--verifier"], check=False)
    tainted = Path("/proc/sys/kernel/tainted").read_text().strip()
    if tainted != "0":
        findings.append(f"the kernel complained: it is tainted ({tainted})")
    words = f"{words} in {time.monotonic() - started_s:.1f} s"
    tell(f"result {name} " + (f"failed {'; '.join(findings)}" if findings else f"ok {words}"))


def show_verifier() -> None:
    """Load both objects with nothing between libbpf and the console, which then has the log."""
    own = bpf_file("../lib/libbpf.so.1")
    libbpf = ctypes.CDLL(str(own) if own.exists() else "libbpf.so.1")
    libbpf.bpf_object__open_file.restype = ctypes.c_void_p
    libbpf.bpf_object__load.argtypes = [ctypes.c_void_p]
    for name in ("sched.bpf.o", "sched_tp.bpf.o"):
        tell(f"loading {name} for its log")
        opened = libbpf.bpf_object__open_file(str(bpf_file(name)).encode(), None)
        tell(f"loading {name}: {libbpf.bpf_object__load(opened) if opened else 'not opened'}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--verifier"]:
        show_verifier()
    elif sys.argv[1:]:
        run_case(sys.argv[1])
    else:
        run_backends()
