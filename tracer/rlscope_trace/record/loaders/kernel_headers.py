"""Kernel headers for bcc, which compiles on this machine."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALL_HINT = "sudo apt-get install python3-bpfcc linux-headers-$(uname -r)"

_SOURCES = Path("/usr/src")


@contextmanager
def headers_for_bcc() -> Iterator[None]:
    """Let bcc find headers: those of this kernel, else the newest there are.

    Headers of another kernel will do, as the programs use nothing of the kernel's but tracepoint
    arguments and helpers. bcc looks in /lib/modules by itself, and where BCC_KERNEL_SOURCE says.
    """
    own = Path("/lib/modules") / os.uname().release / "build"
    if own.exists() or Path("/sys/kernel/kheaders.tar.xz").exists():
        yield
        return
    if "BCC_KERNEL_SOURCE" in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="rlscope-headers-") as merged:
        _merge(_newest_headers(), Path(merged))
        os.environ["BCC_KERNEL_SOURCE"] = merged
        try:
            yield
        finally:
            del os.environ["BCC_KERNEL_SOURCE"]


def _newest_headers() -> Path:
    found = [
        path
        for path in _SOURCES.glob("linux-headers-*")
        if (path / "include" / "generated" / "autoconf.h").exists()
    ]
    if not found:
        raise TracerError(
            f"bcc needs kernel headers: /lib/modules has none for {os.uname().release},"
            f" and {_SOURCES} none at all",
            hint=INSTALL_HINT,
        )
    return max(found, key=lambda path: path.stat().st_mtime)


def _merge(headers: Path, merged: Path) -> None:
    """Lay the halves into which Debian splits the headers over each other, as links.

    linux-headers-X-amd64 (-arm64) has what was generated for one configuration,
    linux-headers-X-common the rest; elsewhere everything stands in one folder.
    """
    common = headers.with_name(f"{headers.name.rpartition('-')[0]}-common")
    halves = [headers, common] if common.is_dir() else [headers]
    machine = {"x86_64": "x86", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    for folder in ("include", f"arch/{machine}/include"):
        (merged / folder).mkdir(parents=True)
        for half in halves:
            for entry in (half / folder).iterdir():
                link = merged / folder / entry.name
                if not link.is_symlink():
                    link.symlink_to(entry)
