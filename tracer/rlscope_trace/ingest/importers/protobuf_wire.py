"""The wire format of protocol buffers, read without a schema and without trust.

A message is bytes and a range in them. A field that is a message, text or bytes is its range:
nothing is copied, nothing recurses, and no length is believed that leaves its message.
"""

from collections.abc import Iterator

Span = tuple[int, int]
"""Where a field lies in the bytes: [begin, end)."""
Value = int | Span

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BITS = 63
_LEAST_TAG = 1 << 3


class WireError(ValueError):
    """Bytes that are no message; args: what is wrong, and at which byte of them."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} at byte {at}")
        self.reason = reason
        self.at = at


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the unsigned number at a place, and where it ends. Raises WireError."""
    number = bits = 0
    for place in range(at, min(end, at + 10)):
        byte = data[place]
        number |= (byte & 0x7F) << bits
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        bits += 7
    raise WireError("a number does not end" if bits > _MAX_VARINT_BITS else "it is cut off", at)


def fields(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field of a message; fixed-size ones are skipped.

    Raises WireError.
    """
    at, end = begin, len(data) if end is None else end
    while at < end:
        start = at
        tag, at = varint(data, at, end)
        kind = tag & 7
        if tag < _LEAST_TAG:
            # A hole in a file, for example: two bytes to a field for as long as it lasts.
            raise WireError("a field without a number", start)
        if kind == _VARINT:
            number, at = varint(data, at, end)
            yield tag >> 3, number
        elif kind == _BYTES:
            size, at = varint(data, at, end)
            if size > end - at:
                raise WireError("it is cut off", start)
            yield tag >> 3, (at, at + size)
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
            if at > end:
                raise WireError("it is cut off", start)
        else:
            raise WireError(f"a field of kind {kind}", start)


def spans(data: bytes, number: int, span: Span | None = None) -> Iterator[Span]:
    """Yield the fields of a number that are messages, text or bytes. Raises WireError."""
    begin, end = span or (0, len(data))
    for found, value in fields(data, begin, end):
        if found == number and isinstance(value, tuple):
            yield value


def numbers(data: bytes, value: Value) -> list[int]:
    """Return a repeated number, packed or one of it. Raises WireError."""
    if isinstance(value, int):
        return [value]
    found: list[int] = []
    at, end = value
    while at < end:
        number, at = varint(data, at, end)
        found.append(number)
    return found


def signed(number: int) -> int:
    """Return the int64 that an unsigned number stands for."""
    return number - (1 << 64) if number >= 1 << 63 else number


def text(data: bytes, span: Value) -> str:
    """Return text, at most 64 KiB of it; what is no UTF-8 becomes U+FFFD."""
    if isinstance(span, int):
        return ""
    begin, end = span
    return data[begin : min(end, begin + 65_536)].decode("utf-8", "replace").replace("\0", "\ufffd")
