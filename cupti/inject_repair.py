"""Runs inside a Python program that the shim was attached to late, and mends what is mendable.

Globals given: SHIM_FOLDER, ENVIRONMENT (NAME=VALUE, each with its NUL) and AUTO (b"1": automatic
phases are wanted), all bytes. RESULT, lines of key=value, is what the recorder tells its user.
Imports nothing that the program does not have already, changes no module of its own but `nvtx`,
and lets no exception out.

`nvtx` asks NVTX once per domain whether a tool is there. If not, 0.2.12 and newer keep a dummy in
place of the domain, and a function decorated then stays undecorated; older ones keep domains and
strings without handles.
"""

from __future__ import annotations

import gc
import sys

RESULT = b""


def _instances(kind: type) -> list:
    """Return the living instances of a class, without running any code of theirs."""
    return [found for found in gc.get_objects() if kind in type(found).__mro__]


def _make_domain_class_willing(library: object) -> None:
    """Let Domain() make a domain though NVTX's answer, given once, is that no tool is there."""
    domain_class, handle_class = library.Domain, library.DomainHandle

    def new(cls: type, name: str | None = None) -> object:
        made = object.__new__(cls)
        made.handle = handle_class(name)
        return made

    domain_class.__new__ = staticmethod(new)


def _clear(function: object) -> int:
    """Empty the cache of a function that has one; return how many entries it had."""
    if not hasattr(function, "cache_clear"):
        return 0
    entries = function.cache_info().currsize
    function.cache_clear()
    return entries


def _repair_dummies(nvtx: object, library: object) -> tuple[int, list[str]]:
    """0.2.12 and newer: domains made from here on are real, and so are those of annotations."""
    module = sys.modules["nvtx.nvtx"]
    _make_domain_class_willing(library)
    asked = _clear(module.get_domain) + _clear(getattr(module, "_get_domain_cached", None))
    remade = 0
    for annotation in _instances(nvtx.annotate):
        if getattr(annotation, "domain", None) is library.dummy_domain:
            annotation.__init__(*annotation.init_args)
            remade += 1
    lost = ["decorated", "domains"] if asked else []
    return remade, lost


def _repair_handles(library: object) -> tuple[int, list[str]]:
    """0.2.11 and older: give domains and strings that were made without a tool their handles."""
    renewed = {}
    for domain in _instances(library.Domain):
        old = domain.handle
        domain.handle = library.DomainHandle(old.name or None)
        domain.categories.clear()
        # Keeps the old one, so that no other object gets its id.
        renewed[id(old)] = (domain.handle, old)
    for method in ("get_registered_string", "get_category_id", "get_event_attributes"):
        _clear(getattr(library.Domain, method, None))
    remade = 0
    for attributes in _instances(library.EventAttributes):
        handle, _ = renewed.get(id(attributes.message.domain), (None, None))
        if handle is not None:
            attributes.message = library.RegisteredString(handle, attributes.message.string)
            remade += 1
    return remade, []


def _repair_nvtx(lines: list[str]) -> None:
    nvtx = sys.modules.get("nvtx")
    library = sys.modules.get("nvtx._lib.lib")
    if nvtx is None or library is None:
        return
    if not nvtx.enabled():
        lines.append("nvtx=disabled")
        return
    if hasattr(library, "dummy_domain"):
        remade, lost = _repair_dummies(nvtx, library)
    else:
        remade, lost = _repair_handles(library)
    lines.append("nvtx=repaired")
    lines.append(f"remade={remade}")
    lines += [f"lost={what}" for what in lost]


def _extend_environment(lines: list[str]) -> None:
    """For objects loaded from here on; os.environ is not touched, which is the program's own."""
    os, posix = sys.modules["os"], sys.modules["posix"]
    for entry in ENVIRONMENT.split(b"\0"):  # noqa: F821
        name, equals, value = entry.partition(b"=")
        if equals and not os.environb.get(name):
            posix.putenv(name, value)
            lines.append(f"environment={name.decode()}")


def _install_phases(lines: list[str]) -> None:
    if AUTO != b"1":  # noqa: F821
        return
    folder = SHIM_FOLDER.decode() + "/python"  # noqa: F821
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        from rlscope_phases import starting
    except ImportError:
        sys.path.remove(folder)
        lines.append("auto=the package rlscope_phases is not installed beside the shim")
        return
    status = starting.install()
    lines.append("auto=installed" if status in ("waiting", "on") else f"auto={status}")
    # Nobody reads marks yet.
    failures = sys.modules.get("rlscope_phases.failures")
    lines += [f"failed={text}" for text in (failures.counts if failures else ())]


def _try(step: object, lines: list[str]) -> None:
    try:
        step(lines)
    except BaseException as problem:  # noqa: BLE001
        # Of what we do here nothing is the program's business, SystemExit included.
        lines.append(f"error={step.__name__}: {problem!r}".replace("\n", " "))


def _run() -> bytes:
    lines = [f"python={sys.version_info[0]}.{sys.version_info[1]}"]
    for step in (_extend_environment, _repair_nvtx, _install_phases):
        _try(step, lines)
    return "\n".join(lines).encode("utf-8", "replace")


RESULT = _run()
