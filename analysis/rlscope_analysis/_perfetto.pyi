"""Turns queries into the bytes of a timeline file."""

from collections.abc import Sequence
from typing import Protocol

class ArrowProducer(Protocol):
    """What hands over an Arrow C stream: a relation of DuckDB, a table of pyarrow or polars."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class Writer:
    """A format with the pass over some tracks that is under way in it."""

    @staticmethod
    def perfetto(first_uuid: int, first_specification: int) -> Writer:
        """Write packets of Perfetto; smaller track uuids and iids belong to the caller."""
    @staticmethod
    def chrome(first_tid: int) -> Writer:
        """Write events of Chrome; thread ids from first_tid on name the lanes of overlaps."""
    def begin_pass(self) -> None:
        """Forget the tracks and sources of the pass before."""
    def add_track(
        self,
        key: Sequence[int | None],
        name: str,
        *,
        group: int = 0,
        scope: int = 0,
        uuid: int = 0,
        parent_uuid: int = 0,
        rank: int = 0,
        pid: int = 0,
        tid: int = 0,
        constant: bytes = b"",
    ) -> None:
        """Add a track; those of one group, and the groups, in the order of the sources."""
    def add_source(
        self,
        producer: ArrowProducer,
        *,
        is_gpu: bool,
        keys: int,
        names: Sequence[tuple[int, str, str, list[tuple[str, str]]]],
        unknown: tuple[int, str, str, list[tuple[str, str]]],
        arguments: Sequence[tuple[str, dict[int, str] | None]],
        correlation: int,
    ) -> None:
        """Add a query of BIGINT columns: start, end, name, keys, arguments; sorted.

        Raises RuntimeError where the columns are others.
        """
    def next(self, bytes: int) -> bytes:
        """Return about so many bytes, none at the end of the pass. RuntimeError: a query failed."""
    @property
    def rows(self) -> int:
        """How many rows this pass has read."""
    @property
    def unplaced(self) -> int:
        """How many of them have a track that was not added: they are not in the output."""
