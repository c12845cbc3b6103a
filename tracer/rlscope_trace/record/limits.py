"""The limits that this process runs under: those that would cost a recording are met before it."""

import resource
from collections.abc import Sequence
from contextlib import suppress

from rlscope_trace import address_space
from rlscope_trace.errors import TracerError
from rlscope_trace.texts import shell_line

# Probes, the files of samples and the memory of shims take one descriptor each.
_WANTED_FILES = 65536
_LEAST_FILES = 128


def require_room(argv: Sequence[str]) -> None:
    """Raise our own limits as far as that is allowed; TracerError where they do not do.

    Call it after the traced program was started, which keeps the limits that it was given.
    """
    files = _raise(resource.RLIMIT_NOFILE, _WANTED_FILES)
    if files < _LEAST_FILES:
        raise _too_low(
            "open files", f"{files:.0f}", f"{_LEAST_FILES}", f"ulimit -n {_LEAST_FILES}", argv
        )
    space = _raise(resource.RLIMIT_AS, resource.RLIM_INFINITY)
    if space < address_space.LEAST_BYTES:
        mib = int(space) >> 20
        raise _too_low(
            "address space", f"{mib:,} MiB", f"{address_space.LEAST_BYTES >> 20:,} MiB",
            "ulimit -v unlimited", argv,
        )  # fmt: skip


def raise_lowered() -> None:
    """Raise limits once more: a program of the same user may have lowered them meanwhile."""
    _raise(resource.RLIMIT_NOFILE, _WANTED_FILES)
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        _raise(limit, resource.RLIM_INFINITY)


def _raise(limit: int, wanted: int) -> float:
    """Raise a limit to what is wanted, or to the most that is allowed; return what it is."""
    soft, hard = resource.getrlimit(limit)
    if _value(soft) >= _value(wanted):
        return _value(soft)
    highest = wanted if _value(wanted) > _value(hard) else hard
    # Beyond its hard limit only who has CAP_SYS_RESOURCE gets.
    for pair in ((wanted, highest), (hard, hard)):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, pair)
            break
    return _value(resource.getrlimit(limit)[0])


def _value(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


def _too_low(what: str, found: str, needed: str, remedy: str, argv: Sequence[str]) -> TracerError:
    return TracerError(
        f"the limit of {what} is {found}, and recording needs {needed}",
        hint=f"{remedy}; {shell_line(['rlscope-trace', *argv])}",
    )
