"""Runs programs side by side, each with an environment of its own, and hands on what they tell.

Its argument is a JSON file: {label: {"command": [...], "environment": {...}}}. Exact: for each
label the pid, the exit code (-N: killed by signal N), the last line in JSON that the program
printed (`told`, null: none), and what it wrote to stderr.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from handshake import begin, finish, parser

# More than this only wait for each other.
AT_ONCE = 4


def run(program: dict[str, object]) -> dict[str, object]:
    """Run one program to its end."""
    with subprocess.Popen(
        program["command"],
        env={**os.environ, **program["environment"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        output, errors = started.communicate()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return {
        "pid": started.pid,
        "code": started.returncode,
        "told": json.loads(lines[-1]) if lines else None,
        "stderr": errors,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("programs", type=Path)
    chosen = options.parse_args()
    programs = json.loads(chosen.programs.read_text())
    begin(chosen)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reported = dict(zip(programs, pool.map(run, programs.values()), strict=True))
    finish(chosen, programs=reported)


if __name__ == "__main__":
    sys.exit(main())
