"""Runs inside a bare root: installs what it is given, tries it, and prints what worked as JSON.

    python3 in_root.py PYTHON PACKAGE full|reading|emulated|layouts|prefix

Written for any Python from 3.10 on, with nothing of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMPILERS = ("cc", "gcc", "g++", "c++", "clang")
HEADERS = ("bpf/bpf.h", "libelf.h", "zlib.h", "Zydis/Zydis.h")
# A program with an answer that is known: one process, which calls nobody and computes for a second.
BUSY = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass"
KINETO = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000, "dur": 50}
    ],
}
HOW_LONG = "SELECT sum(running_ns) BETWEEN 900000000 AND 3000000000 AS is_known FROM thread_time"
USER_HOME = "/home/user"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
POETRY_NEW = "poetry init --no-interaction --name tried --python '>=3.10,<3.16'"
# The hint of a refusal, copied as it is, must work.
SUDO_TRIAL = f"""
RUN:rlscope-trace record --no-calibrate -o run.duckdb -- python3 -c '{BUSY}' 2>refused || true
hint=$(sed -n 's/^ *hint: *//p' refused)
case $hint in sudo\\ *) ;; *) cat refused; exit 1 ;; esac
echo "$hint"; bash -c "$hint"
RUN:rlscope-trace sql run.duckdb '{HOW_LONG}'
"""
# As much of Gymnasium as there is to hook, and a program whose time goes to steps of it.
CORE = """
class Env:
    def reset(self, seed=None): pass
    def step(self, action): pass
    def close(self): pass
class Wrapper(Env): pass
"""
STEPS = """
import time
from gymnasium.core import Env
class Tried(Env):
    def step(self, action): return sum(range(1000))
env, end = Tried(), time.process_time() + 1
while time.process_time() < end: env.step(0)
"""
ARE_STEPS = """
SELECT count(*) > 1000 AND sum(end_ns - start_ns) > 500000000 AS are_steps
FROM operation WHERE name = 'simulation'
"""
STEPS_TRIAL = f"""
sudo env "PATH=$PATH" rlscope-trace record --no-calibrate -o steps.duckdb -- python3 steps.py
rlscope-trace summarize steps.duckdb --view functions | grep 'step (steps.py'
rlscope-trace sql steps.duckdb "{ARE_STEPS}"
"""
LOADED = """
import rlscope_trace._ingest, rlscope_analysis._sweep, rlscope_analysis._perfetto
import rlscope_analysis._critical_path
"""


class Trial:
    """What was tried of one package under one Python, and what came of it."""

    def __init__(self, python: str, package: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rlscope-"))
        self.python, self.package = python, package
        self.command = self.folder / "venv/bin/rlscope-trace"
        self.said: dict[str, object] = {}
        self.failures: dict[str, str] = {}

    def run(self, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the folder of the trial."""
        return subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, cwd=self.folder, env={**os.environ, **env}, timeout=3600,
        )  # fmt: skip

    def step(self, name: str, *words: object, expect: str = "", code: int = 0, **env: str) -> bool:
        """Run one thing and note whether it ended as it should, and how long it took."""
        begun = time.monotonic()
        done = self.run(*words, **env)
        took = round(time.monotonic() - begun, 1)
        text = done.stdout + done.stderr
        self.said[name] = done.returncode == code and expect in text
        self.said[f"{name}_s"] = took
        if not self.said[name]:
            self.failures[name] = text[-2000:]
        return bool(self.said[name])

    def install(self) -> bool:
        """Install the package in an environment of its own."""
        return self.step("venv", self.python, "-m", "venv", "venv") and self.step(
            "installs", "venv/bin/pip", "install", self.package
        )

    def loads(self) -> None:
        """Load what records."""
        self.step("imports", "venv/bin/python", "-c", LOADED + "import rlscope_trace._capture")

    def records(self) -> None:
        """Record a program whose answer is known."""
        self.step("doctor", self.command, "doctor", expect="tracing works")
        options = ("record", "--no-calibrate", "-o", "run.duckdb")
        self.step("records", self.command, *options, "--", "venv/bin/python", "-c", BUSY)
        self.step("is_true", self.command, "sql", "run.duckdb", HOW_LONG, expect="true")
        self.step("summarizes", self.command, "summarize", "run.duckdb", "--all")

    def reads(self) -> None:
        """Read a trace of another profiler, in all ways."""
        (self.folder / "kineto.json").write_text(json.dumps(KINETO))
        self.step("loads", "venv/bin/python", "-c", LOADED)
        self.step(
            "imports_kineto", self.command, "import", "kineto", "kineto.json", "-o", "k.duckdb"
        )
        self.step("reads", self.command, "summarize", "k.duckdb", "--all")
        self.step("asks", self.command, "sql", "k.duckdb", "FROM process")
        self.step("exports", self.command, "export", "chrome", "k.duckdb", "-o", "k.json")
        self.step("reports", self.command, "report", "k.duckdb", "-o", "k.html")
        self.step("compares", self.command, "compare", "k.duckdb", "k.duckdb")

    def environments(self) -> None:
        """Try it where little of an ordinary environment is left."""
        nothing = {"PATH": str(self.command.parent)}
        bare = ["env", "-i", *(f"{key}={value}" for key, value in nothing.items()), self.command]
        run = ("record", "--no-calibrate", "--force", "-o", "bare.duckdb", "--")
        self.step("path_of_its_own", *bare, *run, self.folder / "venv/bin/python", "-c", "1")
        bare[2:-1] = ["PATH="]
        self.step("path_empty", *bare, "summarize", self.folder / "bare.duckdb")
        home = self.folder / "home"
        home.mkdir()
        home.chmod(0o555)
        self.step(
            "home_read_only", self.command, *run, "venv/bin/python", "-c", "1", HOME=str(home)
        )

    def layouts(self) -> None:
        """Install it as the managers of environments do, and trace as a user who has sudo."""
        self.step("venv", self.python, "-m", "venv", "tools")
        self.step("managers", "tools/bin/pip", "install", "uv", "pipx", "poetry")
        self._make_user()
        home = f"{USER_HOME}/tried"
        tools = f"PATH={self.folder}/tools/bin:$PATH UV_PYTHON_DOWNLOADS=never"
        # uv and Poetry have authorities of their own; these are the machine's, as pip is told.
        if "PIP_CERT" in os.environ:
            tools += f" SSL_CERT_FILE={CERTIFICATES} REQUESTS_CA_BUNDLE={CERTIFICATES}"
        uv = f"UV_PYTHON={self.python}"
        for name, makes, runs in (
            ("uv_venv", f"{uv} uv venv e; uv pip install --python e {self.package}", "e/bin/"),
            ("uv_tool", f"{uv} uv tool install {self.package}", "~/.local/bin/"),
            ("uv_run", f"uv init --bare --python {self.python}; uv add {self.package}", "uv run "),
            (
                "pipx",
                f"pipx install --force --python {self.python} {self.package}",
                "~/.local/bin/",
            ),
            ("poetry", f"{POETRY_NEW}; poetry run pip install {self.package}", "poetry run -- "),
        ):
            again = f"rm -rf {home}; mkdir {home}; cd {home}; export {tools}"
            script = f"set -e; {again}; {makes}; {SUDO_TRIAL.replace('RUN:', runs)}"
            self.step(name, "su", "-", "user", "-c", script, expect="true")

    def prefix(self) -> None:
        """Install it in a prefix as conda makes them, and trace what the Python of it runs."""
        folder = Path(self.python).parents[1]
        self._make_user()
        self.run("chown", "--recursive", "user", folder)
        package = self.folder / "gymnasium"
        package.mkdir()
        (package / "core.py").write_text(CORE)
        (self.folder / "steps.py").write_text(STEPS)
        home = f"{USER_HOME}/tried"
        begin = f"rm -rf {home}; mkdir {home}; cp -r {self.folder}/[gs]* {home}; cd {home}"
        tools = f"PATH={folder}/bin:$PATH CONDA_PREFIX={folder}"
        if "PIP_CERT" in os.environ:
            tools += f" PIP_CERT={CERTIFICATES}"
        trials = SUDO_TRIAL.replace("RUN:", "") + STEPS_TRIAL
        script = f"set -e; {begin}; export {tools}; python3 -m pip install {self.package}; {trials}"
        self.step("prefix", "su", "-", "user", "-c", script, expect="true")

    def _make_user(self) -> None:
        """Make a user who may use sudo, which has a PATH of its own."""
        self.run(
            "useradd", "--create-home", "--home-dir", USER_HOME, "--shell", "/bin/bash", "user"
        )
        Path("/etc/sudoers.d/user").write_text("user ALL=(ALL) NOPASSWD: ALL\n")
        self.folder.chmod(0o755)


def main() -> None:
    """Try a package, and print what was found."""
    python, package, kind = sys.argv[1:4]
    trial = Trial(python, package)
    found = [name for name in COMPILERS if shutil.which(name)]
    found += [name for name in HEADERS if Path("/usr/include", name).exists()]
    trial.said["has"] = found
    begun = time.monotonic()
    try:
        if kind == "layouts":
            trial.layouts()
        elif kind == "prefix":
            trial.prefix()
        elif trial.install():
            if kind != "reading":
                trial.loads()
            if kind == "full":
                trial.records()
                trial.said["first_summary_s"] = round(time.monotonic() - begun, 1)
                trial.environments()
            elif kind == "emulated":
                # What cannot be had is said, whatever the emulator answers.
                trial.step("doctor", trial.command, "doctor", expect="aarch64", code=1)
            else:
                words = (trial.command, "record", "--", "true")
                trial.step("says_why_not", *words, expect="cannot record: ", code=1)
            trial.reads()
    finally:
        shutil.rmtree(trial.folder, ignore_errors=True)
    sys.stdout.write(json.dumps({"said": trial.said, "failures": trial.failures}) + "\n")


if __name__ == "__main__":
    main()
