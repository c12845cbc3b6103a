"""The finder, with no more rights than a container beside the program has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from finder_targets import running

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root
USER = 65534
# Prints what the finder says of a process: its interpreter's version, what was not searched, and
# how it ends once the program is another one.
LOOKS = """
import json, sys
from rlscope_trace._capture import PythonScan
scan = PythonScan(int(sys.argv[1]))
runtime = scan.runtime()
found = scan.entry_points(["/x"])
seen = [runtime["version"], found["scanned_bytes"], found["unscanned_bytes"]]
print(json.dumps(seen), flush=True)
sys.stdin.readline()
try:
    scan.mappings()
except ProcessLookupError:
    print("ended", flush=True)
"""
BECOMES = (
    "import os, sys; print('ready', flush=True); sys.stdin.readline();"
    "os.execvp('sh', ['sh', '-c', 'echo changed; read line'])"
)
# Opens the first file that a process in a root of its own has mapped, from another root and as its
# user, so that /proc/PID/map_files is closed.
OPENS = """
import os, subprocess, sys
from rlscope_trace._capture import open_mapped
program, recorder, user = *sys.argv[1:3], int(sys.argv[3])
for root in (program, recorder):
    subprocess.run(["mount", "--bind", root, root], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", f"{root}/proc"], check=True)
chroot = ["chroot", f"--userspec={user}:{user}", program, "/bin/cat"]
cat = subprocess.Popen(chroot, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
cat.stdin.write(b".")
cat.stdout.read(1)
os.chroot(recorder)
os.chdir("/")
os.setresgid(user, user, user)
os.setresuid(user, user, user)
line = next(line for line in open(f"/proc/{cat.pid}/maps") if "/" in line).split()
start, end = (int(word, 16) for word in line[0].split("-"))
fd = open_mapped(cat.pid, start, end, int(line[4]), line[5])
print(line[5], fd >= 0 and os.fstat(fd).st_ino == int(line[4]))
"""


def with_rights(*names: str) -> list[str]:
    """Return what starts a program as root with these capabilities alone."""
    kept = ",".join(["-all", *(f"+{name}" for name in names)])
    return ["setpriv", f"--inh-caps={kept}", f"--bounding-set={kept}"]


@pytest.mark.parametrize("rights", [("sys_ptrace",), ("sys_ptrace", "dac_read_search")])
def test_memory_of_another_user(rights: tuple[str, ...]) -> None:
    """The files below /proc/PID that hold it belong to that user; the system call asks for less."""
    as_user = ["setpriv", f"--reuid={USER}", "--clear-groups"]
    with running(*as_user, "/usr/bin/python3", "-c", BECOMES) as target:
        target.readline()
        looks = [*with_rights(*rights), sys.executable, "-c", LOOKS, str(target.pid)]
        with subprocess.Popen(
            looks, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as looker:
            assert looker.stdout
            assert looker.stdin
            version, scanned, unscanned = json.loads(looker.stdout.readline())
            target.go()
            assert target.readline() == "changed"
            looker.stdin.write("\n")
            looker.stdin.close()
            assert looker.stdout.readline() == "ended\n"
    has_files = "dac_read_search" in rights
    assert version[0] == 3
    assert (scanned > 0) is has_files
    assert (unscanned > 0) is not has_files


def root_with(program: str, folder: Path) -> Path:
    """Return a folder with a program and the libraries that it loads."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in (program, *re.findall(r"/\S+", listed)):
        place = folder / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return folder


def test_a_file_is_opened_from_another_root(tmp_path: Path) -> None:
    """Its name is read as from the root of the mounts, and opened below that of its process."""
    program, recorder = root_with("/bin/cat", tmp_path / "program"), tmp_path / "recorder"
    for root in (program, recorder):
        (root / "proc").mkdir(parents=True)
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", OPENS, program, recorder, str(USER)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.split() == [f"{program}/bin/cat", "True"]
