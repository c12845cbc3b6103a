"""Tells which native functions its own objects lead to, as CPython itself would call them.

Arguments: the modules to import. The truth is exact for what the garbage collector and the types
know: {"functions": {path: {how: [file offset, ...]}}}. It runs on every CPython from 3.9 on, with
nothing installed, and stays until a line on stdin.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

POINTER = ctypes.sizeof(ctypes.c_void_p)
HEAD = object.__basicsize__
HAVE_VECTORCALL = 1 << 11


def word(address: int) -> int:
    """Return the 8 bytes at an address."""
    return ctypes.c_uint64.from_address(address).value


def functions_of(thing: object) -> Iterator[tuple[str, int]]:
    """Yield (how, address) of the native functions through which an object is called."""
    content = id(thing) + HEAD
    kind = type(thing).__name__
    if kind == "builtin_function_or_method":
        yield "function", word(word(content) + POINTER)
    elif kind in ("method_descriptor", "classmethod_descriptor"):
        yield "method", word(word(content + 24) + POINTER)
    elif kind == "wrapper_descriptor":
        yield "slot", word(content + 32)
    elif kind == "getset_descriptor":
        yield "getter", word(word(content + 24) + POINTER)
        yield "getter", word(word(content + 24) + 2 * POINTER)
    elif issubclass(type(thing), type):
        yield "slot", word(content + 296)
        yield "vectorcall", word(content + 384)
    elif type(thing).__flags__ & HAVE_VECTORCALL:
        yield "vectorcall", word(id(thing) + word(id(type(thing)) + HEAD + 40))


def things() -> Iterator[object]:
    """Yield every object that the collector or a type or a module of ours knows."""
    seen = set()
    queue: list[object]
    queue = [*gc.get_objects(), *sys.modules.values(), object]
    while queue:
        thing = queue.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        yield thing
        if issubclass(type(thing), type):
            queue += type.__subclasses__(thing)
            queue += type.__dict__["__dict__"].__get__(thing).values()


def mappings() -> list[tuple[int, int, int, str]]:
    """Return (start, end, file offset, path) of the executable files."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        parts = line.split(None, 5)
        if "x" in parts[1] and len(parts) == 6 and parts[5].startswith("/"):
            start, end = (int(number, 16) for number in parts[0].split("-"))
            found.append((start, end, int(parts[2], 16), parts[5]))
    return found


def main() -> None:
    """Import, tell, and stay until told to end."""
    for name in sys.argv[1:]:
        importlib.import_module(name)
    places = mappings()
    functions: dict[str, dict[str, set[int]]] = {}
    for thing in things():
        for how, address in functions_of(thing):
            for start, end, offset, path in places:
                if start <= address < end:
                    found = functions.setdefault(path, {}).setdefault(how, set())
                    found.add(address - start + offset)
    reported = {
        path: {how: sorted(offsets) for how, offsets in kinds.items()}
        for path, kinds in functions.items()
    }
    sys.stdout.write(json.dumps({"functions": reported}) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


main()
