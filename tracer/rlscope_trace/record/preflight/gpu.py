"""What of a GPU can be recorded here. A machine without one lacks nothing: nothing is an error."""

from __future__ import annotations

import ctypes
import importlib.util
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.record.nvml.library import LIBRARY as NVML_LIBRARY
from rlscope_trace.record.preflight.finding import Finding
from rlscope_trace.record.preflight.package import REINSTALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Load = Callable[[str], object]

DRIVER_LIBRARY = "libcuda.so.1"
DEVICES = Path("/dev")
SHIM_NAME = "librlscope_shim.so"
# Where toolkits put it; wheels put it into site-packages, and programs may have others.
_TOOLKIT_FOLDERS = ("usr/local/cuda*/extras/CUPTI/lib64", "usr/local/cuda*/lib64")
_WHEEL_FOLDERS = ("nvidia/cuda_cupti/lib", "nvidia/cu*/lib")
_INJECTION = "CUDA_INJECTION64_PATH"
_YIELD = "unset it, or --cupti yield leaves the GPU to that tool"


def _loads(library: str, load: Load) -> bool:
    try:
        load(library)
    except OSError:
        return False
    return True


def check_gpu(environment: Mapping[str, str], *, load: Load = ctypes.CDLL) -> list[Finding]:
    """Check driver, devices, CUPTI, NVML and other tools; nothing initialises the driver."""
    has_driver = _loads(DRIVER_LIBRARY, load)
    return [
        check_driver(DEVICES, has_driver=has_driver),
        check_cupti(environment, has_driver=has_driver),
        check_nvml(has_library=_loads(NVML_LIBRARY, load)),
        check_other_tools(environment),
    ]


def check_driver(devices: Path, *, has_driver: bool) -> Finding:
    """Check for the driver's library and its device files, which containers often lack."""
    name = "gpu_driver"
    gpus = sorted(path.name for path in devices.glob("nvidia[0-9]*"))
    if not has_driver and not gpus:
        return Finding(name, "ok", "no NVIDIA GPU here: all else is recorded")
    if not has_driver:
        what = f"{', '.join(gpus)} in {devices}, but {DRIVER_LIBRARY} cannot be loaded"
        return Finding(name, "note", what, "in a container: docker run --gpus all ...")
    if not gpus:
        what = f"{DRIVER_LIBRARY} can be loaded, but {devices} has no nvidia0"
        return Finding(name, "note", what, "in a container: docker run --gpus all ...")
    return Finding(name, "ok", f"{DRIVER_LIBRARY} can be loaded; {', '.join(gpus)} in {devices}")


def _find_cupti(roots: Sequence[Path], environment: Mapping[str, str]) -> list[Path]:
    """Return the libcupti that a program may find, by where they usually lie; each file once."""
    named = environment.get("RLSCOPE_CUPTI_LIBRARY")
    if named:
        return [Path(named)]
    return sorted({path.resolve() for root in roots for path in root.glob("libcupti.so.*")})


def _cupti_folders() -> list[Path]:
    wheels = Path(sysconfig.get_path("purelib"))
    places = [(wheels, pattern) for pattern in _WHEEL_FOLDERS]
    places += [(Path("/"), pattern) for pattern in _TOOLKIT_FOLDERS]
    return [folder for root, pattern in places for folder in root.glob(pattern)]


def check_cupti(
    environment: Mapping[str, str], *, has_driver: bool, folders: Sequence[Path] | None = None
) -> Finding:
    """Check for a libcupti: a program that brings one of its own needs none from here."""
    name = "cupti"
    found = _find_cupti(_cupti_folders() if folders is None else folders, environment)
    missing = [path for path in found if not path.exists()]
    if missing:
        what = f"RLSCOPE_CUPTI_LIBRARY is {missing[0]}, which does not exist"
        return Finding(name, "note", what, "unset RLSCOPE_CUPTI_LIBRARY")
    if found:
        return Finding(name, "ok", f"found {', '.join(map(str, found))}")
    if not has_driver:
        return Finding(name, "ok", "none needed without a GPU")
    what = "no libcupti where toolkits and this Python have it; the program may bring its own"
    return Finding(name, "note", what, "pip install nvidia-cuda-cupti, in the program's Python")


def check_nvml(
    *, has_library: bool, has_package: Callable[[str], object] = importlib.util.find_spec
) -> Finding:
    """Check for what reads utilization, power and clocks."""
    if not has_library:
        return Finding("nvml", "ok", f"no {NVML_LIBRARY}: there is nothing to read")
    if not has_package("pynvml"):
        what = "the Python package nvidia-ml-py is missing: utilization is not recorded"
        return Finding("nvml", "note", what, "pip install nvidia-ml-py")
    return Finding("nvml", "ok", f"{NVML_LIBRARY} can be loaded: utilization, power and clocks")


def check_other_tools(environment: Mapping[str, str]) -> Finding:
    """Check for the shim, and whether another tool has its place."""
    name = "gpu_shim"
    path = environment.get(_INJECTION)
    if path is not None and Path(path).name != SHIM_NAME:
        what = f"{_INJECTION} is {path}: that tool records the GPU, we do not"
        return Finding(name, "note", what, _YIELD)
    if not (SHIM_FOLDER / SHIM_NAME).exists():
        what = f"this installation lacks {SHIM_NAME}: operations and GPU work are not recorded"
        return Finding(name, "warning", what, REINSTALL)
    return Finding(name, "ok", f"{_INJECTION} is free for {SHIM_NAME}")
