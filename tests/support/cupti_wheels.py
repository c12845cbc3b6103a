"""Finds NVIDIA's CUPTI wheels (tests/fakes/requirements-cupti.txt) and unpacks what tests need."""

import ctypes
import os
import sys
import zipfile
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from cuda_fakes import session_folder

WHEELS = {
    "11.8": "nvidia_cuda_cupti_cu11-11.8.87-*.whl",
    "12.4": "nvidia_cuda_cupti_cu12-12.4.127-*.whl",
    "12.9": "nvidia_cuda_cupti_cu12-12.9.79-*.whl",
    "13.0": "nvidia_cuda_cupti-13.0.85-*.whl",
    "13.4": "nvidia_cuda_cupti-13.4.92-*.whl",
}
# Later ones answer nothing at all where there is no driver.
WALKERS = ("11.8", "12.4", "12.9", "13.0")


def _folder() -> Path:
    return Path(os.environ.get("RLSCOPE_CUPTI_WHEELS", Path(sys.prefix) / "cupti"))


def is_there(release: str) -> bool:
    """Tell whether there is a wheel of a release."""
    return any(_folder().glob(WHEELS[release]))


@cache
def unpacked(release: str) -> Path:
    """Return a folder with the library and the headers; without the wheel skip.

    With `cupti` in RLSCOPE_REQUIRE that is a failure.
    """
    found = sorted(_folder().glob(WHEELS[release]))
    if not found:
        reason = f"no CUPTI {release} at {_folder()} (scripts/test fetches it)"
        if "cupti" in os.environ.get("RLSCOPE_REQUIRE", "").split(","):
            pytest.fail(f"RLSCOPE_REQUIRE asks for cupti: {reason}", pytrace=False)
        pytest.skip(reason)
    made = session_folder() / f"wheel-{release}"
    made.mkdir()
    with zipfile.ZipFile(found[-1]) as wheel:
        for name in wheel.namelist():
            member = PurePosixPath(name)
            if member.name.startswith("libcupti.so") or member.suffix == ".h":
                (made / member.name).write_bytes(wheel.read(name))
    return made


@cache
def library(release: str) -> ctypes.CDLL:
    """Load the real libcupti of a release."""
    (path,) = unpacked(release).glob("libcupti.so*")
    return ctypes.CDLL(str(path))
