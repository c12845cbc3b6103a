"""Compiles the libnvidia-ml.so.1 of fakes/fake_libnvml.c, for whoever sets LD_LIBRARY_PATH."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "fakes/fake_libnvml.c"


def build_nvml(folder: Path) -> Path:
    """Build the library in a folder; return the folder."""
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-fPIC", "-shared"]
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", *flags, "-Wl,-soname,libnvidia-ml.so.1", SOURCE, "-o", library], check=True
    )
    return folder
