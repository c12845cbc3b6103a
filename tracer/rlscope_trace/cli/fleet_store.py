"""The answers about traces in an object store: their partials, copied to where they can be read."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.fleet.members import MANIFEST, MOST_MEMBERS, PARTIAL_SUFFIX
from rlscope_analysis.fleet.partial_file import MOST_BYTES
from rlscope_analysis.spill import spill_directory
from rlscope_trace.errors import TracerError
from rlscope_trace.fleet.bucket import Bucket, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MANIFEST_BYTES = 16 << 20


@contextmanager
def fetched(given: Sequence[Path]) -> Iterator[list[Path]]:
    """Give paths of files for all paths: of an object store a folder with what is needed of it."""
    # Where this process may remove files to its end.
    with tempfile.TemporaryDirectory(prefix="fleet-", dir=spill_directory()) as scratch:
        yield [
            path
            if (store := store_of(path)) is None
            else _fetched(store, Path(scratch, str(number)))
            for number, path in enumerate(given)
        ]


def _fetched(store: str, folder: Path) -> Path:
    """Copy the manifest and the partials; raises TracerError where there is no manifest."""
    folder.mkdir()
    bucket = Bucket(store)
    manifest = bucket.read(MANIFEST, _MANIFEST_BYTES)
    if manifest is None:
        raise TracerError(
            f"{store} holds no {MANIFEST}", hint=f"rlscope-trace fleet record -o {store}"
        )
    (folder / MANIFEST).write_bytes(manifest)
    bucket.fetch(_partials(manifest), folder, MOST_BYTES)
    return folder


def _partials(manifest: bytes) -> list[str]:
    """Return the names of the partials; whether the manifest is sound is asked later."""
    try:
        members = json.loads(manifest)["members"][:MOST_MEMBERS]
        traces = [str(member["trace"]) for member in members]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    # Beside the manifest, and nowhere else.
    return [f"{trace}{PARTIAL_SUFFIX}" for trace in traces if trace == Path(trace).name]
