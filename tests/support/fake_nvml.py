"""Compiles the libnvidia-ml.so.1 of fakes/, for whoever sets LD_LIBRARY_PATH."""

from __future__ import annotations

import subprocess
from pathlib import Path

_FAKES = Path(__file__).resolve().parents[1] / "fakes"
SOURCES = [_FAKES / "fake_libnvml.c", _FAKES / "fake_nvml_readings.c"]


def build_nvml(folder: Path) -> Path:
    """Build the library in a folder; return the folder."""
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-fPIC", "-shared"]
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", *flags, "-Wl,-soname,libnvidia-ml.so.1", *SOURCES, "-o", library], check=True
    )
    return folder
