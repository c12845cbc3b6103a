"""Keys in baseline files of earlier versions.

Of version 1 counts are words for people, of which codes are made: they stay as they are, whatever
is said of counts today. Before version 3 it was not told what a GPU does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.compare.run import COUNT, GPU, WALL

if TYPE_CHECKING:
    from rlscope_analysis.compare.run import Key

_CODES = {
    "CUDA: launches": "cuda_launches",
    "GPU: bytes copied": "gpu_bytes_copied",
    "GPU: graphs": "gpu_graphs",
    "GPU: kernels": "gpu_kernels",
    "GPU: memcpy and memset": "gpu_memcpy_memset",
    "environment steps": "environment_steps",
}
_OF_OPERATIONS = {"leading": "leading_operations", "other": "other_operations"}


def key_of_words(key: Key) -> Key:
    """Return the key as later versions have it. Raises KeyError where its words are unknown."""
    if key[:1] != (COUNT,):
        return key
    _, words = key
    if words in _CODES:
        return COUNT, _CODES[words], ""
    place, _, name = words.partition(": ")
    return COUNT, _OF_OPERATIONS[place], name


def key_before_kinds(key: Key) -> Key:
    """Return the key. Raises ValueError where later versions have several in its place."""
    if key[:2] == (WALL, GPU):
        raise ValueError("of kernels and copies together")
    return key
