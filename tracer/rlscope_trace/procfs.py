"""Reads what /proc says of a process or thread."""

from pathlib import Path

_PROC = Path("/proc")

_ENDED = ("Z", "X")


def split_stat(text: str) -> tuple[str, list[str]]:
    """Return the name and the fields behind it, state first, of a /proc/.../stat.

    proc(5) counts pid and name too: its field n is number n - 3 here. The name stands in
    parentheses and may hold any character, spaces and parentheses too.
    """
    opening, closing = text.index("("), text.rindex(")")
    return text[opening + 1 : closing], text[closing + 1 :].split()


def printable(text: str) -> str:
    """Escape what a terminal would obey instead of showing it, line feeds included."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_running(pid: int) -> bool:
    """Tell whether a process has not ended; one that nobody has waited for yet has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return split_stat(text)[1][0] not in _ENDED


def status_words(entry: Path, name: str) -> list[str]:
    """Return the words of a line of a status file, empty where there is none. Raises OSError."""
    for line in (entry / "status").read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.split()
    return []


def users_of(pid: int) -> set[int]:
    """Return the real, effective, saved and file system user of a process, and who may read it.

    That is root where it may not be traced by its own user. Empty where the process is gone.
    """
    entry = _PROC / str(pid)
    try:
        return {*map(int, status_words(entry, "Uid")), (entry / "environ").stat().st_uid}
    except OSError:
        return set()
