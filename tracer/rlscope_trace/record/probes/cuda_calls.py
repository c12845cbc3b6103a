"""Probes the CUDA API in the processes whose calls nobody else tells.

The functions of libcuda and libcudart, of every copy that a process maps, and those of a runtime
that is linked into another file. Probes belong to files, so all traced processes that map a probed
file are recorded, also one whose calls CUPTI reports: store/cuda_rows.py then keeps those.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rlscope_trace import _capture
from rlscope_trace.record.probes.cuda_functions import CudaFunctions, functions_of, library_of
from rlscope_trace.record.probes.modules import Module, files_of, open_file, path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_trace.record.probes.calls import CallProbes
    from rlscope_trace.record.probes.log import ProbeLog
    from rlscope_trace.record.probes.process import FileKey, Mapping, Process

CudaMode = Literal["auto", "on", "off"]
GpuState = Literal["on", "off", "refused"]
_LAYER = "cuda_api"
# More than Linux passes to a program, of arguments and environment together.
_ENVIRON_BYTES = 6 << 20
_SHIM = "librlscope_shim.so"


@dataclass(slots=True)
class _File:
    """One file that may hold functions of the CUDA API; probed or not, it is read once."""

    name: str
    is_probed: bool = False
    is_blind: bool = False
    reason: str | None = None
    """Why it could not be probed."""


@dataclass(slots=True)
class _Reported:
    """What has been said of a process."""

    state: str
    files: list[str] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)
    reason: str | None = None


class CudaCalls:
    """Follows the CUDA libraries of the target's processes."""

    def __init__(
        self,
        calls: CallProbes,
        log: ProbeLog,
        *,
        mode: CudaMode,
        gpu_state: Callable[[int], GpuState | None],
    ) -> None:
        """gpu_state: what the shim in a process said of CUPTI, None where it said nothing yet."""
        self._calls = calls
        self._log = log
        self._mode = mode
        self._gpu_state = gpu_state
        self._files: dict[FileKey, _File] = {}

    def look(self, process: Process, now_ns: int, *, changed: bool) -> None:
        """Probe what a process has loaded since the last time; changed: it has other mappings."""
        if changed:
            process.cuda_files = _candidates(process)
        if not process.cuda_files or self._calls.is_given_up:
            return
        if not self._is_wanted(process):
            self._tell(process, _Reported("left"))
            return
        is_new = any(key not in self._files for key in process.cuda_files)
        if (changed or is_new) and self._calls.refuses(process):
            return
        found = []
        for key, mapping in process.cuda_files.items():
            if self._calls.is_cancelled:
                return
            if key not in self._files:
                self._files[key] = self._probed(process.pid, mapping, now_ns)
            found.append(self._files[key])
        self._tell(process, _summary(found))

    def _is_wanted(self, process: Process) -> bool:
        if self._mode == "on":
            return True
        state = self._gpu_state(process.pid)
        if state is not None:
            return state != "on"
        if process.expects_cupti is None:
            process.expects_cupti = expects_cupti(process.pid)
        return not process.expects_cupti

    def _probed(self, pid: int, mapping: Mapping, now_ns: int) -> _File:
        """Read a file, and probe what it has."""
        file = _File(Path(mapping[0]).name)
        module = Module(mapping[0], _LAYER, now_ns)
        try:
            module.fd = open_file(pid, mapping)
            functions = functions_of(_capture.FunctionFile(path_of(module.fd)), mapping[0])
        except OSError as error:
            functions = CudaFunctions()
            file.reason = error.strerror or str(error)
        if functions.points:
            self._calls.probe(pid, mapping, module, functions.points)
            file.is_probed = module.probed > 0
            file.reason = None if file.is_probed else "the OS kernel takes no probe there"
        elif library_of(mapping[0]) and file.reason is None:
            file.reason = next(iter(functions.rejected.values()), "it has no such functions")
        for reason in functions.rejected.values():
            self._log.append("rejected", pid=pid, reason=reason, count=1)
        file.is_blind = functions.is_blind
        if not functions.points and module.fd >= 0:
            os.close(module.fd)
        return file

    def _tell(self, process: Process, reported: _Reported) -> None:
        if process.cuda_reported == reported:
            return
        process.cuda_reported = reported
        self._log.append(
            "cuda", pid=process.pid, ts_ns=time.monotonic_ns(), state=reported.state,
            files=reported.files, blind=reported.blind, reason=reported.reason,
        )  # fmt: skip


def expects_cupti(pid: int) -> bool:
    """Tell whether CUPTI is to tell of the calls of a process: its environment says so.

    It was started by a recorder that asked for that: CUDA loads the shim as soon as it begins to
    work, and the shim says whether CUPTI does.
    """
    try:
        entries = _capture.shown_memory(pid, "environ", _ENVIRON_BYTES).split(b"\0")
    except OSError:
        return False
    variables = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    library = os.fsdecode(variables.get(b"CUDA_INJECTION64_PATH", b""))
    is_ours = Path(library).name == _SHIM and b"RLSCOPE_SESSION" in variables
    return is_ours and variables.get(b"RLSCOPE_CUPTI", b"on") == b"on"


def _candidates(process: Process) -> dict[FileKey, Mapping]:
    """Return the files of a process that may hold functions of the CUDA API.

    The libraries first, of these the driver, which sees all that works on a GPU. Others may have
    the runtime linked into them, which is of interest where there is a driver.
    """
    files = files_of(process.mappings)
    libraries = {key: library_of(mapping[0]) for key, mapping in files.items()}
    chosen = sorted((library, key) for key, library in libraries.items() if library is not None)
    found = {key: files[key] for _, key in chosen}
    if "cuda" in libraries.values():
        found |= files
    return found


def _summary(found: list[_File]) -> _Reported:
    reasons = [f"{file.name}: {file.reason}" for file in found if file.reason]
    probed = sorted({file.name for file in found if file.is_probed})
    return _Reported(
        "probed" if probed else "failed",
        probed,
        sorted({file.name for file in found if file.is_blind}),
        "; ".join(sorted(set(reasons))) or None,
    )
