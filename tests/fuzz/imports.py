"""Files of other profilers, and spools, with some bytes changed: traces are made of them.

The first byte of the input says which file; then come the changes, see python_target.flipped.
"""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING

import atheris
from python_target import flipped, run, work_folder

with atheris.instrument_imports(include=["rlscope_trace"]):
    from finalising import ended, finalise, report_nothing
    from rlscope_trace.errors import TracerError
    from rlscope_trace.ingest.importers.kineto import import_kineto
    from rlscope_trace.ingest.importers.nsys import import_nsys
    from rlscope_trace.spool.directory import open_spool

from gpu_spool import cupti_thread, kernel_half
from kineto_builder import annotation, call, kernel, op, write_kineto
from nsys_builder import NsysBuilder

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = work_folder("imports")
_OUT = _FOLDER / "out"
_SPOOL = _FOLDER / "sound.spool"
_SPOOL_FILES = ("records.bin", "shim.bin", "progress.bin", "session.json", "probes.jsonl")


def _kineto_file() -> bytes:
    events = [
        annotation("step", 0, 100),
        op("aten::mm", 10, 50),
        call("cudaLaunchKernel", 12, 14, correlation=1),
        kernel("gemm", 20, 40, correlation=1),
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    ]
    return write_kineto(_FOLDER / "plain.json", events).read_bytes()


def _nsys_file() -> bytes:
    builder = NsysBuilder(_FOLDER / "report.sqlite")
    builder.call(10, 20, correlation=1)
    builder.kernel(100, 200, correlation=1)
    return builder.write().read_bytes()


def _write_spool() -> None:
    kernel_half(_SPOOL)
    shim = cupti_thread()
    shim.thread(tid=10, ts_ns=110)
    shim.range("step", 120, 900)
    shim.range("inside", 130, 200, depth=1)
    shim.category(3, "third")
    shim.range("step", 1000, 1100, category=3)
    shim.counters(dropped=2)
    shim.write(_SPOOL)
    site = {
        "event": "site", "site_id": 1, "module": "/lib/mujoco.so", "symbol": "mj_step",
        "file_offset": 16, "layer": "simulator", "kind": "function",
    }  # fmt: skip
    (_SPOOL / "probes.jsonl").write_text(json.dumps(site) + "\n")


def _import(name: str, data: bytes, output: Path) -> None:
    path = _OUT / name
    path.write_bytes(data)
    if path.suffix == ".sqlite":
        made = import_nsys([path], output, overwrite=False, progress=report_nothing)
    else:
        made = import_kineto([path], output, salvage=True, overwrite=False, progress=report_nothing)
    ended(made)


def _recover(name: str, edits: bytes, output: Path) -> None:
    spool = _OUT / "spool"
    shutil.copytree(_SPOOL, spool)
    (spool / name).write_bytes(flipped((spool / name).read_bytes(), edits))
    finalise(open_spool(spool), output)


def target(data: bytes) -> None:
    """Change a file and make a trace of it."""
    if not data:
        return
    _OUT.mkdir()
    output = _OUT / "trace.duckdb"
    kind, edits = data[0] % (len(_FILES) + len(_SPOOL_FILES)), data[1:]
    try:
        if kind < len(_FILES):
            name, whole = _FILES[kind]
            _import(name, flipped(whole, edits), output)
        else:
            _recover(_SPOOL_FILES[kind - len(_FILES)], edits, output)
    except TracerError:
        assert not output.exists(), "a failed import leaves nothing"
    finally:
        shutil.rmtree(_OUT)


if __name__ == "__main__":
    _KINETO = _kineto_file()
    _FILES = (
        ("trace.json", _KINETO),
        ("trace.json.gz", gzip.compress(_KINETO, mtime=0)),
        ("report.sqlite", _nsys_file()),
    )
    _write_spool()
    run(target)
