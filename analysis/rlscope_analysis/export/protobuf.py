"""Writes the few protobuf messages that are not slices: the wire format, without a library."""

from __future__ import annotations

_VARINT, _BYTES = 0, 2


def varint(value: int) -> bytes:
    """Encode an integer; negative ones as 64 bits of two's complement, as protobuf's int64."""
    value &= 2**64 - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field: int, value: int | None) -> bytes:
    """Encode an integer field; None: it is left out."""
    return b"" if value is None else varint(field << 3 | _VARINT) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """Encode a field that is a message of these fields."""
    body = b"".join(parts)
    return varint(field << 3 | _BYTES) + varint(len(body)) + body


def text(field: int, value: str | None) -> bytes:
    """Encode a string field; None: it is left out."""
    return b"" if value is None else message(field, value.encode())
