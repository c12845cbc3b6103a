"""Runs in mounts and a pid namespace of its own: the recorder and a program, each in its container.

    python3 in_pod.py CASE RECORDER-ROOT PROGRAM-ROOT

Prints what the trace says of the program, as JSON. What a runtime does besides is not tried: its
filter of system calls, its network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

USER = 1000
# It computes, and calls into a native module, whose calls are asked for.
BUSY = """
import time
from _json import encode_basestring
print("started", flush=True)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    sum(range(10_000))
    encode_basestring("words")
"""
# As a runtime of containers does it: mounts of its own, of which nothing else is in sight.
ENTER = 'cd "$1" && shift && mkdir -p old && pivot_root . old && umount --lazy old && exec "$@"'
MEASURE = """
SELECT (SELECT count(*) FROM process) AS processes,
       (SELECT sum(running_ns) FROM thread_time) / (SELECT max(end_ns) - min(start_ns) FROM thread)
         AS running,
       (SELECT count(*) FROM cpu_sample) AS samples,
       (SELECT count(*) FROM cpu_sample WHERE stack_id IS NOT NULL) AS functions,
       (SELECT count(*) FROM native_call) AS calls
"""


class Case(NamedTuple):
    """Who records, with which capabilities, and how it sees the program, whose user is USER."""

    user: int
    capabilities: str
    sees: str
    has_calls: bool = True
    """Whether calls into native modules can be recorded, too."""


_ATTACHES = "bpf perfmon sys_ptrace"
_ALL = f"{_ATTACHES} dac_read_search"
CASES = {
    "launches": Case(0, "bpf perfmon", "launches it"),
    "sidecar_same_user": Case(USER, "bpf perfmon", "same pid namespace"),
    "sidecar": Case(0, _ATTACHES, "same pid namespace", has_calls=False),
    "sidecar_with_calls": Case(0, _ALL, "same pid namespace"),
    "daemonset": Case(0, _ATTACHES, "pid namespace above", has_calls=False),
    "daemonset_with_calls": Case(0, _ALL, "pid namespace above"),
}


def furnish(root: str) -> None:
    """Mount what a container has: /proc of this pid namespace, /sys and /tmp of its own, /dev.

    The root is a mount, too: what files lie on is known only from there on.
    """
    subprocess.run(["mount", "--bind", root, root], check=True)
    for kind, place, options in (
        ("proc", "proc", "rw"),
        ("sysfs", "sys", "ro"),
        ("tmpfs", "tmp", "mode=1777"),
    ):
        subprocess.run(["mount", "-t", kind, "-o", options, kind, f"{root}/{place}"], check=True)
    subprocess.run(["mount", "--rbind", "/dev", f"{root}/dev"], check=True)


def contained(root: str, user: int, capabilities: str, *words: str) -> list[str]:
    """Return the command that runs one in a root of its own, with no more rights than these."""
    kept = "-all" + "".join(f",+{name}" for name in capabilities.split())
    rights = [f"--{kind}-caps={kept}" for kind in ("inh", "ambient")]
    return [
        "unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh", root,
        "setpriv", "--no-new-privs", f"--reuid={user}", f"--regid={user}",
        "--clear-groups", f"--bounding-set={kept}", *rights,
        "env", "-i", "PATH=/venv/bin:/usr/bin:/bin", "HOME=/tmp", *words,
    ]  # fmt: skip


def started(root: str, proc: Path, *, nested: bool) -> tuple[subprocess.Popen[str], int]:
    """Start the program; return it and its pid, as `proc` has it, when it computes."""
    command = contained(root, USER, "", "python3", "-c", BUSY.format(seconds=60))
    if nested:
        command = ["unshare", "--pid", "--fork", "--kill-child", *command]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert program.stdout
    program.stdout.readline()
    children = proc / f"{program.pid}/task/{program.pid}/children"
    return program, int(children.read_text()) if nested else program.pid


def main() -> None:
    """Try one case."""
    name, recorder, root = sys.argv[1:4]
    case = CASES[name]
    for place in {recorder, root}:
        furnish(place)
    record = ["rlscope-trace", "record", "--no-calibrate", "--simulator", "_json"]
    record += ["-o", "/tmp/run.duckdb"]
    if case.sees == "launches it":
        program, asked = None, [*record, "--", "python3", "-c", BUSY.format(seconds=2)]
    else:
        is_nested = case.sees == "pid namespace above"
        program, pid = started(root, Path(recorder, "proc"), nested=is_nested)
        asked = [*record, "-d", "2", "--pid", str(pid)]
    done = subprocess.run(
        contained(recorder, case.user, case.capabilities, *asked),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if program is not None:
        program.kill()
    words = ("rlscope-trace", "sql", "/tmp/run.duckdb", MEASURE, "--format", "json")
    answer = subprocess.run(
        contained(recorder, case.user, case.capabilities, *words),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if answer.returncode:
        sys.exit(done.stderr + answer.stderr)
    (row,) = json.loads(answer.stdout)
    sys.stdout.write(json.dumps({**row, "said": done.stderr}) + "\n")


if __name__ == "__main__":
    main()
