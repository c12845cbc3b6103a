"""Random events as the fake CUPTI takes them, and the records of buffers and rings they become."""

import ctypes
import random
import struct
from typing import Any

from lib.shim_records import numbers

# CUPTI's kinds of activity.
MEMCPY, MEMSET, KERNEL_SERIAL, DRIVER, RUNTIME, CONTEXT, KERNEL = 1, 2, 3, 4, 5, 9, 10
OVERHEAD, PEER, STREAM, SYNC, MEMORY, GRAPH = 17, 22, 37, 38, 49, 51
KINDS = (
    MEMCPY, MEMSET, KERNEL_SERIAL, DRIVER, RUNTIME, CONTEXT, KERNEL, OVERHEAD, PEER, STREAM, SYNC,
    MEMORY, GRAPH,
)  # fmt: skip
# Of cupti/records.h: kinds of cells, and what a GPU did.
STRING, CALL, ACTIVITY, OVERHEAD_CELL, MEMORY_CELL, NAMED, CELL = numbers(
    "STRING", "GPU_CALL", "GPU_ACTIVITY", "GPU_OVERHEAD", "GPU_MEMORY", "GPU_NAMED", "CELL_BYTES"
)
DID = {KERNEL_SERIAL: 1, KERNEL: 1, MEMCPY: 2, PEER: 2, MEMSET: 3, GRAPH: 4, SYNC: 5}
NOWHERE = 2**32 - 1


class Event(ctypes.Structure):
    """struct fake_event of tests/fakes/fake_link.h."""

    _fields_ = (
        ("kind", ctypes.c_uint32), ("detail", ctypes.c_uint32), ("start_ns", ctypes.c_uint64),
        ("end_ns", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("address", ctypes.c_uint64),
        ("node", ctypes.c_uint64), ("name", ctypes.c_char_p), ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32), ("stream", ctypes.c_uint32), ("graph", ctypes.c_uint32),
        ("peer_device", ctypes.c_uint32), ("correlation", ctypes.c_uint32),
        ("function", ctypes.c_uint32), ("result", ctypes.c_uint32),
    )  # fmt: skip


def random_event(dice: random.Random, kind: int) -> Event:
    """Return an event whose fields all differ from each other and fill their bytes."""

    def number(bits: int = 32) -> int:
        return dice.randrange(1, 2**bits - 1)

    detail = {MEMCPY: 8, PEER: 10, SYNC: 4, OVERHEAD: 8, MEMORY: 2}.get(kind, 1)
    start_ns = number(62)
    return Event(
        kind=kind,
        detail=dice.randint(1, detail),
        start_ns=start_ns,
        end_ns=start_ns + number(40),
        bytes=number(48),
        address=number(48),
        node=number(64),
        name=dice.choice((b"gemm", b"void at::native::kernel<float>(int, float*)", b"k" * 900)),
        device=dice.randrange(8),
        context=number(),
        stream=number(),
        graph=number(),
        peer_device=dice.randrange(8),
        correlation=number(),
        # Calls that every version of CUPTI has a name for, and that are wanted.
        function=211 if kind == RUNTIME else 307,
        result=number(),
    )


def strings_of(cells: bytes) -> tuple[dict[int, bytes], list[bytes]]:
    """Return the texts of a ring by their hash, and the cells that hold none, in order."""
    texts = {}
    others = []
    at = 0
    while at < len(cells):
        cell = cells[at : at + CELL]
        kind, length, _, hashed = struct.unpack_from("<HHIQ", cell)
        at += CELL
        if kind != STRING:
            others.append(cell)
            continue
        more = (max(0, length - 48) + CELL - 1) // CELL * CELL
        texts[hashed] = (cell[16:] + cells[at : at + more])[:length]
        at += more
    return texts, others


def reported(cell: bytes, texts: dict[int, bytes]) -> dict[str, Any]:
    """Return what a cell says, its name as text."""
    (kind,) = struct.unpack_from("<H", cell)
    layouts = {
        CALL: ("<HHIQQQIII", "cell api tid start end name correlation function result"),
        ACTIVITY: (
            "<HBBIQQQQIIIII",
            "cell work detail device start end name bytes correlation context stream graph peer",
        ),
        OVERHEAD_CELL: ("<HHIQQ", "cell what tid start end"),
        MEMORY_CELL: (
            "<HBBIQQQII",
            "cell release memory device start bytes address correlation context",
        ),
        NAMED: ("<HHIIIQ", "cell is_stream device context stream name"),
    }
    layout, names = layouts[kind]
    values = dict(zip(names.split(), struct.unpack_from(layout, cell), strict=True))
    if "name" in values:
        values["name"] = texts[values["name"]] if values["name"] else None
    return values


def expected(event: Event, tid: int, devices: dict[int, int]) -> dict[str, Any]:
    """Return what the shim has to say of an event. devices: of the contexts told so far."""
    kind = event.kind
    if kind in (DRIVER, RUNTIME):
        return {
            "cell": CALL, "api": kind, "tid": tid, "start": event.start_ns, "end": event.end_ns,
            "name": b"cudaLaunchKernel" if kind == RUNTIME else b"cuLaunchKernel",
            "correlation": event.correlation, "function": event.function, "result": event.result,
        }  # fmt: skip
    if kind == OVERHEAD:
        return {
            "cell": OVERHEAD_CELL, "what": event.detail, "tid": tid, "start": event.start_ns,
            "end": event.end_ns,
        }  # fmt: skip
    if kind == MEMORY:
        return {
            "cell": MEMORY_CELL, "release": int(event.detail == 2), "memory": 3,
            "device": event.device, "start": event.start_ns, "bytes": event.bytes,
            "address": event.address, "correlation": event.correlation, "context": event.context,
        }  # fmt: skip
    if kind in (CONTEXT, STREAM):
        is_stream = kind == STREAM
        return {
            "cell": NAMED, "is_stream": int(is_stream), "context": event.context, "name": None,
            "device": devices.get(event.context, NOWHERE) if is_stream else event.device,
            "stream": event.stream if is_stream else 0,
        }  # fmt: skip
    return _expected_activity(event, devices)


def _expected_activity(event: Event, devices: dict[int, int]) -> dict[str, Any]:
    kind = event.kind
    is_copy = kind in (MEMCPY, PEER)
    peer = {PEER: event.peer_device, MEMCPY: NOWHERE}
    return {
        "cell": ACTIVITY,
        "work": DID[kind],
        "detail": event.detail if is_copy or kind == SYNC else 0,
        "device": devices.get(event.context, NOWHERE) if kind == SYNC else event.device,
        "start": event.start_ns,
        "end": event.end_ns,
        "name": event.name if kind in (KERNEL, KERNEL_SERIAL) else None,
        "bytes": event.bytes if is_copy or kind == MEMSET else 0,
        "correlation": event.correlation,
        "context": event.context,
        "stream": event.stream,
        "graph": 0 if kind == SYNC else event.graph,
        "peer": peer.get(kind, 0),
    }
