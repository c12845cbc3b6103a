"""What the PyTorch profiler (Kineto) calls the things of a trace, where it has a word for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rlscope_analysis.export import sources
from rlscope_analysis.export.names import Wording

if TYPE_CHECKING:
    from rlscope_analysis.export.sources import Kind

_GPU_CATEGORIES = {
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "sync": "cuda_sync",
    "graph": "gpu_graph",
}
_LAYER_CATEGORIES = {"backend": "cpu_op", "python": "python_function"}
# Functions of the driver; those of the runtime begin with cuda.
_DRIVER_CALL = re.compile(r"cu[A-Z]")
_HIP_CALL = re.compile(r"hip[A-Z]")
# A Python function with its line, as `import kineto` stores it.
_PYTHON_SYMBOL = re.compile(r"(?P<name>.+):(?P<line>\d+)", re.DOTALL)


class KinetoWording(Wording):
    """Kineto's categories and names; what it has not keeps the names of our tables."""

    def category(self, kind: Kind, word: str) -> str:
        """Return Kineto's category where it has one; `word` as in Wording."""
        if kind.is_gpu:
            return _GPU_CATEGORIES.get(word, "gpu_activity")
        if kind is sources.OPERATION:
            return "user_annotation"
        if kind is sources.NATIVE_CALL:
            return _LAYER_CATEGORIES.get(word, kind.category)
        if kind is sources.CUDA_CALL:
            if _HIP_CALL.match(word):
                return "hip_runtime"
            return "cuda_driver" if _DRIVER_CALL.match(word) else "cuda_runtime"
        return kind.category

    def call_name(self, layer: str | None, module: str | None, symbol: str) -> str:
        """Return the name of a native call, with file and line where it is one of Python."""
        parts = _PYTHON_SYMBOL.fullmatch(symbol)
        if layer != "python" or module is None or parts is None:
            return symbol
        return f"{module}({parts['line']}): {parts['name']}"
