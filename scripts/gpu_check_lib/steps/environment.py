"""What this machine is, and what of it can be used: driver, GPU, PyTorch, eBPF, ptrace, NVML."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_check_lib.context import ProgramError
from gpu_check_lib.cupti_choice import major_of

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

_DRIVER_VERSION = Path("/proc/driver/nvidia/version")
_TORCH = (
    "import torch, json\n"
    "print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda}))"
)


def run(context: Context) -> None:
    """Find out everything; each fact is there for the later steps as soon as it is known."""
    context.tell("machine", f"Linux {platform.release()}, {platform.machine()}", **machine())
    context.learn("known", **machine())
    has_gpu = find_gpu(context)
    has_package = find_package(context)
    find_torch(context, has_gpu)
    if has_package:
        find_bpf(context)
    find_ptrace(context)
    find_nvml(context)


def machine() -> dict[str, object]:
    """Return what is known of the machine without looking for anything."""
    return {
        "kernel": platform.release(),
        "glibc": platform.libc_ver()[1],
        "cpus": len(os.sched_getaffinity(0)),
        "btf": Path("/sys/kernel/btf/vmlinux").exists(),
        "root": os.geteuid() == 0,
        "load": os.getloadavg()[0],
    }


def find_gpu(context: Context) -> bool:
    """Ask the driver in a process of its own: who calls cuInit before a fork spoils the child."""
    program = (
        "import ctypes, json\n"
        "cuda = ctypes.CDLL('libcuda.so.1')\n"
        "code, version, count = cuda.cuInit(0), ctypes.c_int(), ctypes.c_int()\n"
        "cuda.cuDriverGetVersion(ctypes.byref(version))\n"
        "cuda.cuDeviceGetCount(ctypes.byref(count))\n"
        "print(json.dumps({'code': code, 'version': version.value, 'count': count.value}))\n"
    )
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return _no_gpu(context, "no NVIDIA driver: libcuda.so.1 was not found")
    try:
        reported = context.run([context.target_python, "-c", program])
    except ProgramError as error:
        return _no_gpu(context, f"the NVIDIA driver does not work: {error}")
    if reported["code"] != 0 or reported["count"] == 0:
        return _no_gpu(
            context, f"no GPU: cuInit -> {reported['code']}, {reported['count']} devices"
        )
    version = _DRIVER_VERSION.read_text() if _DRIVER_VERSION.exists() else "no /proc/driver/nvidia"
    context.learn("known", driver_cuda=reported["version"], gpus=reported["count"], driver=version)
    smi = _output(["nvidia-smi", "-L"])
    context.check("GPU and driver", True, f"CUDA {reported['version']}, {smi or reported['count']}")
    return True


def _no_gpu(context: Context, reason: str) -> bool:
    context.learn("missing", gpu=reason)
    context.skip("GPU and driver", reason)
    return False


def find_package(context: Context) -> bool:
    """See whether the package is there, with its native parts."""
    try:
        from rlscope_trace import __version__, _capture  # noqa: F401 - whether it loads
        from rlscope_trace.record import shims
    except ImportError as error:
        reason = f"rlscope-trace is not there: {error}; scripts/gpu_check run --bundle FILE"
        context.learn("missing", package=reason)
        context.skip("rlscope-trace", reason)
        return False
    context.learn("known", rlscope_trace=__version__)
    return context.check("rlscope-trace loads", shims.LIBRARY.exists(), f"version {__version__}")


def find_torch(context: Context, has_gpu: bool) -> None:
    """See which PyTorch there is, and whether it was built with CUDA."""
    try:
        reported = context.run([context.target_python, "-c", _TORCH])
    except ProgramError as error:
        reason = f"no PyTorch in {context.target_python}: {error}"
    else:
        reason = "" if reported["cuda"] else f"PyTorch {reported['version']} is built without CUDA"
        context.learn("known", torch=reported["version"], torch_cuda=reported["cuda"])
    if reason:
        context.learn("missing", torch=reason)
        context.skip("PyTorch", reason)
        return
    context.tell("PyTorch", f"{reported['version']}, CUDA {reported['cuda']}")
    if has_gpu:
        find_mapped_cupti(context)


def find_mapped_cupti(context: Context) -> None:
    """See which libcupti a process has after `import torch` and a first kernel."""
    reported = context.run(context.program("torch_loop", "--steps", 1, "--size", 64))
    majors = {path: major_of(path) for path in reported["cupti"]}
    wanted = int(reported["cuda"].split(".")[0])
    context.learn("known", mapped_cupti=reported["cupti"])
    context.check(
        "PyTorch maps one libcupti, of its own CUDA",
        list(majors.values()) == [wanted],
        ", ".join(reported["cupti"]) or "none is mapped",
    )


def find_bpf(context: Context) -> None:
    """Load and attach the programs for switches, and see what they need if they cannot."""
    from rlscope_trace.record.loaders.btf import BtfLoader

    try:
        capture = BtfLoader(ring_bytes=1 << 20)
        capture.detach()
    except (OSError, RuntimeError) as error:
        reason = f"no eBPF here: {error}"
        context.learn("missing", bpf=reason)
        context.skip("eBPF works", reason)
    else:
        context.check("eBPF works", True, "the programs of the capture btf load")


def find_ptrace(context: Context) -> None:
    """See whether one process may attach to another that is not its child."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    value = scope.read_text().strip() if scope.exists() else "none"
    reason = "" if value != "3" else "ptrace is forbidden: yama/ptrace_scope is 3"
    if reason:
        context.learn("missing", ptrace=reason)
    context.tell("ptrace", f"yama/ptrace_scope {value}")


def find_nvml(context: Context) -> None:
    """See whether the driver tells of its GPUs."""
    if importlib.util.find_spec("pynvml") is None:
        reason = "no nvidia-ml-py"
    else:
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            reason = f"no NVML: {error}"
        else:
            context.learn("known", nvml_driver=str(pynvml.nvmlSystemGetDriverVersion()))
            context.check("NVML", True, f"driver {pynvml.nvmlSystemGetDriverVersion()}")
            pynvml.nvmlShutdown()
            return
    context.learn("missing", nvml=reason)
    context.skip("NVML", reason)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "; ".join(done.stdout.strip().splitlines())
