"""Folders in object stores: s3://BUCKET/FOLDER, by pyarrow, with what its environment says.

What lies there is read as warily as what lies in a folder: no more of it than ours can have.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from rlscope_trace.errors import TracerError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyarrow.fs import FileSystem

# pathlib makes one slash of two.
_STORE = re.compile(r"s3:/+(?=.)")
# Of pyarrow: what it cannot read is a ValueError, what a server refuses an OSError.
_ERRORS = (OSError, ValueError)
_HINT = "pip install 'rlscope-trace[ray]', which has pyarrow"
_ENDPOINT = "AWS_ENDPOINT_URL names another server than that of AWS"


def store_of(folder: object) -> str | None:
    """Return the address of a folder in an object store; None: it is one of files."""
    text = str(folder)
    found = _STORE.match(text)
    return None if found is None else f"s3://{text[found.end() :].rstrip('/')}"


class Bucket:
    """A folder in an object store."""

    def __init__(self, address: str) -> None:
        """address: of store_of(). Raises TracerError where it cannot be had."""
        self.address = address
        try:
            from pyarrow import fs
        except ImportError as error:
            raise TracerError(f"{address} needs pyarrow", hint=_HINT) from error
        try:
            self._files: FileSystem
            self._files, self._folder = fs.FileSystem.from_uri(_with_endpoint(address))
        except _ERRORS as error:
            raise self._failed("open", error) from error

    def put(self, local: Path, name: str) -> None:
        """Copy a file there. Raises TracerError."""
        try:
            with local.open("rb") as source, self._files.open_output_stream(self._at(name)) as copy:
                shutil.copyfileobj(source, copy, 8 << 20)
        except _ERRORS as error:
            raise self._failed(f"write {name} to", error) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file. Raises TracerError."""
        try:
            with self._files.open_output_stream(self._at(name)) as stream:
                stream.write(content)
        except _ERRORS as error:
            raise self._failed(f"write {name} to", error) from error

    def read(self, name: str, most_bytes: int) -> bytes | None:
        """Return a file; None: there is none, or it is larger than that. Raises TracerError."""
        try:
            info = self._files.get_file_info(self._at(name))
            if not info.is_file or (info.size or 0) > most_bytes:
                return None
            with self._files.open_input_stream(self._at(name)) as stream:
                return bytes(stream.read(most_bytes))
        except _ERRORS as error:
            raise self._failed(f"read {name} of", error) from error

    def has(self, name: str) -> bool:
        """Tell whether a file is there. Raises TracerError."""
        try:
            return bool(self._files.get_file_info(self._at(name)).is_file)
        except _ERRORS as error:
            raise self._failed(f"read {name} of", error) from error

    def fetch(self, names: Iterable[str], folder: Path, most_bytes: int) -> None:
        """Copy files that are there, and not too large, into a folder. Raises TracerError."""
        for name in names:
            content = self.read(name, most_bytes)
            if content is not None:
                (folder / name).write_bytes(content)

    def _at(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _failed(self, what: str, error: Any) -> TracerError:  # noqa: ANN401 - of pyarrow
        why = str(error).partition("\n")[0][:300]
        return TracerError(f"cannot {what} {self.address}: {why}", hint=_ENDPOINT)


def _with_endpoint(address: str) -> str:
    """Name the server that the environment names: as pyarrow takes it in an address."""
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not server or "?" in address:
        return address
    parts = urlsplit(server)
    return f"{address}?scheme={quote(parts.scheme)}&endpoint_override={quote(parts.netloc)}"
