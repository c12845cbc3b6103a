"""Compiles tests/workloads/nvtx_client.c with NVIDIA's own header."""

import importlib.metadata
import subprocess
from pathlib import Path

from conftest import WORKLOADS


def nvtx_include() -> Path:
    """Return the folder of NVIDIA's headers."""
    files = importlib.metadata.files("nvidia-nvtx") or []
    (header,) = [
        file for file in files if file.name == "nvToolsExt.h" and file.parent.name == "nvtx3"
    ]
    return Path(str(header.locate())).parents[1]


def compiled(output: Path, *flags: str) -> Path:
    """Return the compiled client."""
    subprocess.run(
        ["cc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", *flags,
         f"-I{nvtx_include()}", str(WORKLOADS / "nvtx_client.c"), "-o", str(output), "-lpthread",
         "-ldl"],
        check=True,
    )  # fmt: skip
    return output
