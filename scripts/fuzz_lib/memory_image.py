"""A file that is also the memory of a Python process, as the target `process` maps it."""

from __future__ import annotations

import struct

# See tests/fuzz/process.cpp: where the file is mapped, and what is asked, from its end.
_BASE = 0x10000000
_ASK_NAME = b"\0" * 8

_CODE_AT = 0x1000
_FUNCTION_TABLE_AT = 0x1100
_NAMES_AT = 0x1200
_TEXT_AT = 0x1400
_SYMBOLS_AT = 0x1800
_SECTIONS_AT = 0x1B00
_RUNTIME_AT = 0x2000
_OBJECTS_AT = 0x2400
_STRINGS_AT = 0x3000
_CODE_OBJECT_AT = 0x3400
_END = 0x3800

_FUNCTIONS = ("PyEval_SaveThread", "PyEval_RestoreThread")
_TYPES = (
    "PyCFunction_Type", "PyMethodDescr_Type", "PyWrapperDescr_Type", "PyGetSetDescr_Type",
    "PyType_Type",
)  # fmt: skip
_FUNCTION_CODE = bytes.fromhex("f30f1efa554889e5905dc3")  # endbr64; push; mov; nop; pop; ret


def memory_image() -> bytes:
    """Return an interpreter of version 3.11 with one object of each kind and a code object."""
    image = bytearray(_END)
    _put(image, 0, _elf_header(), _segments())
    _put(image, _CODE_AT, _FUNCTION_CODE)
    _put(image, _FUNCTION_TABLE_AT, _function_table())
    _put_symbols(image)
    _put(image, _SECTIONS_AT, _sections())
    _put(image, _RUNTIME_AT + 0x80, b"3.11.2 (main, Mar 13 2023)")
    _put_objects(image)
    _put_code_object(image)
    # What is asked: a name at the place of the code object, for 3.11.
    ask = _ASK_NAME + struct.pack("<6xH", _CODE_OBJECT_AT)
    return bytes(image) + ask[2:] + bytes([2, 0])


def _put(image: bytearray, at: int, *parts: bytes) -> None:
    data = b"".join(parts)
    image[at : at + len(data)] = data


def _elf_header() -> bytes:
    identity = b"\x7fELF\2\1\1".ljust(16, b"\0")
    return identity + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, _SECTIONS_AT, 0, 64, 56, 3, 64, 4, 3
    )


def _segments() -> bytes:
    def segment(kind: int, flags: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, offset, offset, offset, size, size, 16)

    return (
        segment(1, 5, 0, 0x2000)
        + segment(1, 6, 0x2000, _END - 0x2000)
        + segment(0x6474E550, 4, _FUNCTION_TABLE_AT, 64)
    )


def _function_table() -> bytes:
    """Return .eh_frame_hdr of one function, and its entry of .eh_frame behind it."""
    entry_at = 32
    head = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, 0, 1)
    table = struct.pack("<ii", _CODE_AT - _FUNCTION_TABLE_AT, entry_at)
    start = _CODE_AT - (_FUNCTION_TABLE_AT + entry_at + 8)
    entry = struct.pack("<IIiI", 12, 0, start, len(_FUNCTION_CODE))
    return (head + table).ljust(entry_at, b"\0") + entry


def _put_symbols(image: bytearray) -> None:
    text, symbols = b"\0", bytes(24)
    places = {name: (2, _CODE_AT, len(_FUNCTION_CODE)) for name in _FUNCTIONS}
    places |= {name: (1, _type_at(name), 400) for name in _TYPES}
    places["_PyRuntime"] = (1, _RUNTIME_AT, 0x400)
    for name, (kind, address, size) in places.items():
        symbols += struct.pack("<IBBHQQ", len(text), 0x10 | kind, 0, 1, address, size)
        text += name.encode() + b"\0"
    _put(image, _SYMBOLS_AT, symbols)
    _put(image, _TEXT_AT, text)
    _put(image, _NAMES_AT, b"\0.dynsym\0.dynstr\0.text\0")


def _sections() -> bytes:
    def section(name: int, kind: int, offset: int, size: int, link: int = 0) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, kind, 0, offset, offset, size, link, 0, 8, 24)

    return (
        bytes(64)
        + section(1, 11, _SYMBOLS_AT, 24 * 9, 2)
        + section(9, 3, _TEXT_AT, 0x200)
        + section(17, 3, _NAMES_AT, 0x40)
    )


def _type_at(name: str) -> int:
    return _OBJECTS_AT + 0x200 + 0x40 * _TYPES.index(name)


def _put_objects(image: bytearray) -> None:
    """Put one object of each type: count, type, and where it leads."""
    definition = _STRINGS_AT + 0x40
    _put(image, _STRINGS_AT, b"compute\0")
    function = struct.pack("<QQi", _BASE + _STRINGS_AT, _BASE + _CODE_AT, 1)
    _put(image, definition, function)
    for number, name in enumerate(_TYPES):
        head = struct.pack("<QQ", 1, _BASE + _type_at(name))
        content = struct.pack(
            "<6Q", *(_BASE + place for place in (definition, definition, definition, definition)),
            _BASE + _CODE_AT, 0,
        )  # fmt: skip
        _put(image, _OBJECTS_AT + 0x40 * number, head + content)


def _put_code_object(image: bytearray) -> None:
    """Put a code object of 3.11, its type, and the two str that it names."""
    kind_at, word_at, name_at = _CODE_OBJECT_AT + 0x100, _CODE_OBJECT_AT + 0x140, 0x3600
    _put(image, word_at, b"code\0")
    _put(image, kind_at + 24, struct.pack("<Q", _BASE + word_at))
    _put(image, _CODE_OBJECT_AT, struct.pack("<QQ", 1, _BASE + kind_at))
    _put(image, _CODE_OBJECT_AT + 72, struct.pack("<i", 12))
    for field in (112, 128):
        _put(image, _CODE_OBJECT_AT + field, struct.pack("<Q", _BASE + name_at))
    _put(image, name_at, struct.pack("<QQQQI", 1, 0, 8, 0, 1 << 5 | 1 << 6 | 1 << 2))
    _put(image, name_at + 48, b"train.py")
