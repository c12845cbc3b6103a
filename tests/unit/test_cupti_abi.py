"""The layouts of CUPTI's records: ours, the fake's and NVIDIA's own have to agree.

NVIDIA's libraries walk buffers without a driver, up to 13.3, and so tell how long their records
are; their headers tell where the fields stand. What records mean in time they cannot tell: they
never saw a GPU here, and neither did these tests.
"""

import ctypes
import random
import re
import subprocess
from pathlib import Path

import pytest

from cuda_fakes import RELEASES, session_folder, shim_decoder, toolkit
from cupti_events import KINDS, Event, expected, random_event, reported, strings_of
from cupti_wheels import WALKERS, WHEELS, library, unpacked
from phases_harness import compiler

CUPTI_END = 12
REFERENCE = """
#include <stdint.h>
#include <stddef.h>
#include <stdio.h>
typedef struct { char bytes[16]; } CUuuid;
typedef void *CUcontext, *CUstream, *CUfunction, *CUmodule, *CUgraph, *CUgraphNode, *CUgraphExec;
typedef void *CUevent;
typedef int CUdevice, CUdevice_attribute, CUgraphNodeType, CUstreamAttrID, CUstreamAttrValue;
typedef struct { void* base; size_t bytes; float ratio; int hit; int miss; } CUaccessPolicyWindow;
"""
# NVIDIA's records, without the number of their version, and ours: where each field stands.
FIELDS = {
    "API cupti_api_call": "cbid:function start:start end:end processId:process threadId:thread"
    " correlationId:correlation returnValue:result",
    "Kernel cupti_kernel": "start:start end:end deviceId:device contextId:context streamId:stream"
    " correlationId:correlation name:name graphNodeId:graph_node graphId:graph queued:queued"
    " submitted:submitted",
    "Memcpy cupti_memcpy": "copyKind:copy_kind bytes:bytes start:start end:end deviceId:device"
    " contextId:context streamId:stream correlationId:correlation graphId:graph",
    "MemcpyPtoP cupti_memcpy_peer": "copyKind:copy_kind bytes:bytes start:start end:end"
    " deviceId:device contextId:context streamId:stream dstDeviceId:target_device"
    " correlationId:correlation graphId:graph",
    "Memset cupti_memset": "bytes:bytes start:start end:end deviceId:device contextId:context"
    " streamId:stream correlationId:correlation graphId:graph",
    "Synchronization cupti_sync": "type:type start:start end:end correlationId:correlation"
    " contextId:context streamId:stream",
    "GraphTrace cupti_graph": "correlationId:correlation start:start end:end deviceId:device"
    " graphId:graph contextId:context streamId:stream",
    "Overhead cupti_overhead": "overheadKind:what objectKind:object_kind objectId:object"
    " start:start end:end",
    "Memory cupti_memory": "memoryOperationType:operation memoryKind:memory_kind"
    " correlationId:correlation address:address bytes:bytes timestamp:timestamp deviceId:device"
    " contextId:context streamId:stream",
    "Context cupti_context": "contextId:context deviceId:device",
    "Stream cupti_stream": "contextId:context streamId:stream",
}
# Which of CUPTI's kinds those are.
KIND_OF = {
    "API": (4, 5), "Kernel": (3, 10), "Memcpy": (1,), "MemcpyPtoP": (22,), "Memset": (2,),
    "Synchronization": (38,), "GraphTrace": (51,), "Overhead": (17,), "Memory": (49,),
    "Context": (9,), "Stream": (37,),
}  # fmt: skip
NUMBERS = {
    "CUPTI_ACTIVITY_KIND_": {
        "MEMCPY": 1, "MEMSET": 2, "KERNEL": 3, "DRIVER": 4, "RUNTIME": 5, "CONTEXT": 9,
        "CONCURRENT_KERNEL": 10, "OVERHEAD": 17, "MEMCPY2": 22, "STREAM": 37,
        "SYNCHRONIZATION": 38, "MEMORY2": 49, "GRAPH_TRACE": 51,
    },
    "CUPTI_ACTIVITY_": {
        "OVERHEAD_CUPTI_BUFFER_FLUSH": 1 << 16, "OBJECT_THREAD": 2, "THREAD_ID_TYPE_SYSTEM": 1,
        "FLAG_FLUSH_FORCED": 1, "MEMORY_OPERATION_TYPE_RELEASE": 2, "MEMCPY_KIND_HTOD": 1,
        "MEMCPY_KIND_DTOH": 2, "MEMCPY_KIND_PTOP": 10, "MEMORY_KIND_DEVICE": 3,
        "SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE": 3,
    },
    "CUPTI_ERROR_": {
        "MAX_LIMIT_REACHED": 12, "NOT_COMPATIBLE": 14, "NOT_INITIALIZED": 15, "INVALID_KIND": 21,
        "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED": 39, "UNKNOWN": 999,
    },
}  # fmt: skip


def fake(release: str) -> ctypes.CDLL:
    made = ctypes.CDLL(str(toolkit(release) / RELEASES[release].cupti))
    made.fakecupti_record.restype = ctypes.c_size_t
    return made


def written(release: str, event: Event, tid: int, record: "ctypes.Array[ctypes.c_uint8]") -> int:
    """Have the fake write a record of a release; return how long it is."""
    api = ctypes.c_uint32(RELEASES[release].api)
    size = fake(release).fakecupti_record(api, ctypes.byref(event), ctypes.c_uint64(tid), record)
    return int(size)


def filled(release: str, events: list[Event]) -> tuple[bytes, list[int]]:
    """Return a buffer with these events as the release writes them, and where each begins."""
    record = (ctypes.c_uint8 * 256)()
    buffer = b""
    starts = []
    for tid, event in enumerate(events, 1):
        starts.append(len(buffer))
        size = fake(release).fakecupti_record(
            ctypes.c_uint32(RELEASES[release].api),
            ctypes.byref(event),
            ctypes.c_uint64(tid),
            record,
        )
        assert size > 0
        buffer += bytes(record)[:size]
    return buffer, starts


def walked(cupti: ctypes.CDLL, buffer: bytes) -> tuple[list[int], int]:
    """Return where a library finds the records of a buffer, and what it said at the end."""
    memory = ctypes.create_string_buffer(buffer, len(buffer))
    record = ctypes.c_void_p()
    starts = []
    while not (
        result := cupti.cuptiActivityGetNextRecord(
            memory, ctypes.c_size_t(len(buffer)), ctypes.byref(record)
        )
    ):
        assert record.value is not None
        starts.append(record.value - ctypes.addressof(memory))
    return starts, result


def random_events(seed: int, count: int) -> list[Event]:
    dice = random.Random(seed)
    return [random_event(dice, dice.choice(KINDS)) for _ in range(count)]


@pytest.mark.parametrize("release", WALKERS)
def test_the_library_finds_the_records_that_the_fake_writes(release: str) -> None:
    real = library(release)
    buffer, starts = filled(release, random_events(1, 2000))
    assert walked(real, buffer) == (starts, CUPTI_END)
    assert walked(fake(release), buffer) == (starts, CUPTI_END)


@pytest.mark.parametrize("release", WALKERS)
def test_the_library_and_the_fake_stop_where_a_kind_is_unknown(release: str) -> None:
    real = library(release)
    buffer, starts = filled(release, random_events(2, 5))
    broken = buffer + (63).to_bytes(4, "little") + bytes(36)
    assert walked(real, broken) == walked(fake(release), broken)
    assert walked(real, broken)[0] == starts
    assert walked(real, broken)[1] != CUPTI_END


@pytest.mark.parametrize("release", WALKERS)
def test_the_shim_reads_what_the_library_walks(release: str) -> None:
    real = library(release)
    # Others each time: the decoder remembers the contexts that it told.
    events = random_events(10 + WALKERS.index(release), 500)
    buffer, _ = filled(release, events)
    cells = ctypes.create_string_buffer(1 << 20)
    decoder = ctypes.CDLL(str(shim_decoder()))
    decoder.harness_convert.restype = ctypes.c_uint64
    length = decoder.harness_convert(
        ctypes.cast(real.cuptiActivityGetNextRecord, ctypes.c_void_p),
        ctypes.cast(real.cuptiGetCallbackName, ctypes.c_void_p),
        ctypes.c_uint32(RELEASES[release].api), buffer, ctypes.c_uint64(len(buffer)), cells,
        ctypes.c_uint64(len(cells)),
    )  # fmt: skip
    texts, others = strings_of(cells.raw[:length])
    devices: dict[int, int] = {}
    wanted = []
    for tid, event in enumerate(events, 1):
        if event.kind == 9:
            devices[event.context] = event.device
        wanted.append(expected(event, tid, devices))
    assert [reported(cell, texts) for cell in others] == wanted


def newest(header: str, family: str) -> str:
    """Return the newest record of a family that a header defines; the others are deprecated."""
    names = re.findall(rf"}} (CUpti_Activity{family}\d*);", header)
    return str(max(names, key=lambda name: int(name[14 + len(family) :] or 1)))


def compiled(release: str, body: str) -> str:
    """Run a program that knows NVIDIA's header and return what it prints."""
    folder = session_folder() / f"headers-{release}"
    folder.mkdir(exist_ok=True)
    # The driver's header comes with a toolkit. Of it, records need no more than this.
    (folder / "cuda.h").write_text(f"#pragma once\n{REFERENCE}")
    (folder / "builtin_types.h").write_text('#include "cuda.h"\n')
    source = folder / "program.c"
    source.write_text(f'#include "cuda.h"\n#include <cupti_activity.h>\n{body}', encoding="utf-8")
    command = [compiler(), "-w", f"-I{folder}", f"-I{unpacked(release)}", str(source)]
    subprocess.run([*command, "-o", str(folder / "program")], check=True)
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("release", WHEELS)
def test_fields_stand_where_the_header_says(release: str) -> None:
    header = (unpacked(release) / "cupti_activity.h").read_text()
    lines = [f'#include "{Path(__file__).parents[2]}/cupti/cupti_abi.h"', "int main(void) {"]
    for families, fields in FIELDS.items():
        family, ours = families.split()
        theirs = newest(header, family)
        for their_field, field in (pair.split(":") for pair in fields.split()):
            lines += [
                f"_Static_assert(offsetof({theirs}, {their_field}) == offsetof(struct {ours},"
                f' {field}), "{theirs}.{their_field}");',
                f"_Static_assert(sizeof((({theirs}*)0)->{their_field}) == sizeof(((struct {ours}*)"
                f'0)->{field}), "size of {theirs}.{their_field}");',
            ]
        for kind in KIND_OF[family]:
            lines.append(f'printf("{kind} %zu\\n", sizeof({theirs}));')
    # The shim calls its own constants as CUPTI does: only structures are compared here.
    shim = re.sub(r"enum( \w+)? {[^}]*};", "", Path(lines[0].split('"')[1]).read_text())
    (session_folder() / "shim_structs.h").write_text(shim)
    lines[0] = f'#include "{session_folder()}/shim_structs.h"'
    printed = compiled(release, "\n".join([*lines, "return 0; }"]))
    record = (ctypes.c_uint8 * 256)()
    for line in printed.splitlines():
        kind, size = map(int, line.split())
        event = Event(kind=kind)
        assert size == written(release, event, 0, record), f"kind {kind}"


@pytest.mark.parametrize("release", WHEELS)
def test_numbers_are_those_of_the_header(release: str) -> None:
    names = re.findall(
        r"call\(FAKE_(DRIVER|RUNTIME), (\d+), (\w+)\)",
        (Path(__file__).parents[1] / "fakes" / "fake_link.h").read_text(),
    )
    assert len(names) > 30
    lines = [
        f"_Static_assert(CUPTI_{domain}_TRACE_CBID_{name} == {number}, {name!r});".replace("'", '"')
        for domain, number, name in names
    ]
    for prefix, numbers in NUMBERS.items():
        lines += [
            f'_Static_assert({prefix}{name} == {number}, "{name}");'
            for name, number in numbers.items()
        ]
    includes = "#include <cupti_runtime_cbid.h>\n#include <cupti_driver_cbid.h>\n"
    assert compiled(release, includes + "\n".join([*lines, "int main(void) { return 0; }"])) == ""


PARAMS = (
    "structSize:struct_bytes subscriberName:name oldSubscriberName:old_name"
    " oldSubscriberSize:old_bytes"
)


@pytest.mark.parametrize("release", ["13.0", "13.4"])
def test_what_a_subscriber_asks_for_stands_where_the_header_says(release: str) -> None:
    shim = (Path(__file__).parents[2] / "cupti" / "cupti_abi.h").read_text()
    (ours,) = re.findall(r"struct cupti_subscriber_params {[^}]*};", shim)
    lines = [
        f"_Static_assert(offsetof(CUpti_SubscriberParams, {their_field}) =="
        f' offsetof(struct cupti_subscriber_params, {field}), "{field}");'
        for their_field, field in (pair.split(":") for pair in PARAMS.split())
    ]
    lines.append(
        'printf("%zu %zu %d", sizeof(struct cupti_subscriber_params),'
        " CUpti_SubscriberParams_STRUCT_SIZE, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN);"
    )
    printed = compiled(release, "\n".join([ours, "int main(void) {", *lines, "return 0; }"]))
    size, newest_size, name_bytes = map(int, printed.split())
    assert size == newest_size if release == "13.0" else size < newest_size
    assert name_bytes <= 128


def answers(cupti: ctypes.CDLL) -> dict[str, int]:
    """Return what the calls of a library answer where there is no driver."""
    version, number = ctypes.c_uint32(), ctypes.c_uint32()
    stamp, handle = ctypes.c_uint64(), ctypes.c_void_p()
    name, count = ctypes.c_char_p(), ctypes.c_size_t()
    clock = ctypes.CFUNCTYPE(ctypes.c_uint64)(lambda: 0)
    nothing = ctypes.CFUNCTYPE(None)(lambda: None)
    arguments = {
        "cuptiGetVersion": (ctypes.byref(version),),
        "cuptiGetTimestamp": (ctypes.byref(stamp),),
        "cuptiSubscribe": (ctypes.byref(handle), nothing, None),
        "cuptiUnsubscribe": (handle,),
        "cuptiActivityEnable": (10,),
        "cuptiActivityEnableAndDump": (9,),
        "cuptiActivityDisable": (10,),
        "cuptiActivityEnableRuntimeApi": (211, 1),
        "cuptiActivityEnableDriverApi": (307, 1),
        "cuptiActivityFlushAll": (0,),
        "cuptiActivityFlushPeriod": (100,),
        "cuptiActivityRegisterTimestampCallback": (clock,),
        "cuptiActivityRegisterCallbacks": (nothing, nothing),
        "cuptiActivityGetNumDroppedRecords": (None, 0, ctypes.byref(count)),
        "cuptiSetThreadIdType": (1,),
        "cuptiGetCallbackName": (2, 211, ctypes.byref(name)),
        "cuptiGetContextId": (None, ctypes.byref(number)),
        "cuptiGetStreamIdEx": (None, None, 0, ctypes.byref(number)),
        "cuptiGetDeviceId": (None, ctypes.byref(number)),
        "cuptiSubscribe_v2": (ctypes.byref(handle), nothing, None, None),
        "cuptiFinalize": (),
    }
    reported = {
        call: int(getattr(cupti, call)(*given)) if hasattr(cupti, call) else -1
        for call, given in arguments.items()
    }
    # Without a clock of ours CUPTI's is CLOCK_REALTIME.
    return {**reported, "version": version.value, "is_realtime": int(stamp.value > 10**18)}


@pytest.mark.parametrize("release", WHEELS)
def test_the_fake_answers_as_the_library_does_without_a_driver(release: str) -> None:
    real = answers(library(release))
    assert answers(fake(release)) == real
    assert real["cuptiSubscribe"] != 0
