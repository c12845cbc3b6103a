"""Runs a command that sees copies in the places of files: a script of its own, started as root.

    python -I -S mounted.py PLACES COMMAND...

PLACES is a JSON object: `files`, pairs of a copy and the file in whose place it is seen, and
`user`, uid, gid and groups that the command runs with; null: as we do. It is seen by the command
and its processes alone (mount_namespaces(7)), and gone when they are.
"""

import ctypes
import json
import os
import sys

_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000


def main() -> None:
    """Mount the copies and become the command."""
    places, command = json.loads(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "a mount namespace")
    # Else the mounts would be seen everywhere.
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "/")
    for copy, place in places["files"]:
        result = libc.mount(os.fsencode(copy), os.fsencode(place), None, _MS_BIND, None)
        _check(result, place)
    if places["user"] is not None:
        uid, gid, groups = places["user"]
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    os.execv(command[0], command)


def _check(result: int, what: str) -> None:
    if result != 0:
        words = os.strerror(ctypes.get_errno())
        sys.exit(f"error: cannot mount {what} for the untraced run: {words}")


if __name__ == "__main__":
    main()
