"""Parts of a recording of two Ray nodes killed at random moments: the rest saves, nothing stays."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from soak_lib.home import FailureError, Home, SoakError
from soak_lib.os_kernel import until
from soak_lib.progress import Progress, say

if TYPE_CHECKING:
    from collections.abc import Sequence

_VICTIMS = ("command", "keeper", "recorder", "raylet", "driver")
_MOMENTS = {"starting": 3.0, "recording": 6.0, "saving": 1.5}
"""When to kill: at most so many seconds after that has begun."""
_GONE_S = 60.0
# What the command said.
_LOG = "words"
_NODES = Path(__file__).resolve().parents[2] / "tests/workloads/ray_nodes.py"


@dataclass(slots=True)
class Job:
    """Two nodes and a job that runs on both."""

    home: Home
    nodes: subprocess.Popen[str]
    driver: subprocess.Popen[str]
    environment: dict[str, str]
    job_id: str

    @classmethod
    def start(cls, home: Home) -> Job:
        """Start both, and wait until the job works."""
        environment = home.environment(RAY_AUTH_MODE="disabled")
        nodes = _started([sys.executable, str(_NODES)], environment)
        assert nodes.stdout is not None
        environment["RAY_ADDRESS"] = nodes.stdout.readline().strip()
        driver = _started(home.program("ray_loop"), environment)
        assert driver.stdout is not None
        job_id = driver.stdout.readline().strip()
        if not job_id:
            raise SoakError("the job did not start on Ray", "pip install ray")
        return cls(home, nodes, driver, environment, job_id)

    def close(self) -> None:
        """End the job and the nodes."""
        self.driver.kill()
        self.driver.communicate()
        with suppress(subprocess.TimeoutExpired):
            self.nodes.communicate(timeout=30)
        self.nodes.kill()
        for pid in processes_like("raylet/raylet", "gcs_server"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run(home: Home, runs: int, seed: int) -> bool:
    """Kill so many of them; tell whether all went well."""
    chance = random.Random(seed)
    progress = Progress(f"fleet kills (seed {seed})", runs)
    say(f"fleet kills: {runs} of a recording of two nodes, seed {seed}, in {home.folder}")
    job: Job | None = None
    try:
        for number in range(runs):
            victim, moment = chance.choice(_VICTIMS), chance.choice([*_MOMENTS])
            delay_s = chance.uniform(0, _MOMENTS[moment])
            job = Job.start(home) if job is None else job
            what = f"run {number}: {victim} {delay_s:.2f} s after {moment}"
            try:
                _kill(job, victim, moment, delay_s)
            except FailureError as failure:
                say(f"FAILED {what}: {failure}\n{(home.folder / _LOG).read_text()}")
                return False
            progress.counts[f"{victim} while {moment}"] += 1
            progress.step(what)
            if victim in ("raylet", "driver"):
                job.close()
                job = None
    finally:
        if job is not None:
            job.close()
    say(progress.line())
    return True


def _kill(job: Job, victim: str, moment: str, delay_s: float) -> None:
    folder, log = job.home.folder / "run", job.home.folder / _LOG
    shutil.rmtree(folder, ignore_errors=True)
    with log.open("w") as words:
        command = subprocess.Popen(
            [job.home.recorder, "fleet", "record", "-o", str(folder), "--job", job.job_id],
            env=job.environment, stdin=subprocess.DEVNULL, stderr=words,
        )  # fmt: skip
    if moment != "starting":
        until(lambda: "recording 2 nodes" in log.read_text(), "both are recorded", _GONE_S)
    if moment == "saving":
        command.send_signal(signal.SIGINT)
    time.sleep(delay_s)
    recorded = set(_recorders())
    killed_s = time.monotonic()
    _end(job, victim, command)
    if victim == "command":
        command.wait()
        until(lambda: not _recorders(), "no recorder is left", _GONE_S)
    else:
        if moment == "recording" and victim != "driver":
            time.sleep(2.5)
            command.send_signal(signal.SIGINT)
        elif moment == "starting" and victim != "driver":
            until(lambda: "recording" in log.read_text() or _ended(command), "it starts", _GONE_S)
            command.send_signal(signal.SIGINT)
        until(lambda: _ended(command), "the command ends", _GONE_S)
        until(lambda: not _recorders(), "no recorder is left", _GONE_S)
    took_s = time.monotonic() - killed_s
    _require(folder, victim, moment, len(recorded), f"after {took_s:.0f} s")
    if victim != "driver" and job.driver.poll() is not None:
        raise FailureError("the job was harmed")


def _require(folder: Path, victim: str, moment: str, recorded: int, words: str) -> None:
    """Hold what is there to what has to be: a trace of each node that lives, and lived."""
    traces = sorted(path.name for path in folder.glob("*.duckdb")) if folder.exists() else []
    spools = sorted(path.name for path in folder.glob("*.spool")) if folder.exists() else []
    if victim == "command":
        if len(traces) < recorded and moment == "recording":
            raise FailureError(f"{traces} of {recorded} nodes {words}")
        if spools and moment != "starting":
            raise FailureError(f"left: {spools} {words}")
        return
    if moment == "starting":
        return
    least = 1 if victim == "raylet" or (victim, moment) == ("recorder", "saving") else 2
    if len(traces) < least:
        raise FailureError(f"{traces}, {spools} {words}")
    manifest = json.loads((folder / "manifest.json").read_text())
    named = [one["node"] for one in (*manifest["members"], *manifest["lost"])]
    if len(set(named)) != 2:
        raise FailureError(f"the manifest names {named}")


def _end(job: Job, victim: str, command: subprocess.Popen[bytes]) -> None:
    of_keepers = processes_like("ray::Keeper")
    victims = {
        "command": [command.pid], "keeper": of_keepers[:1], "recorder": _recorders()[:1],
        "raylet": _last_raylet(), "driver": [job.driver.pid],
    }[victim]  # fmt: skip
    for pid in victims:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _last_raylet() -> list[int]:
    """Return the raylet that is not the head's."""
    return processes_like("raylet/raylet")[-1:]


def _recorders() -> list[int]:
    return processes_like("rlscope_trace record --pid")


def _ended(command: subprocess.Popen[bytes]) -> bool:
    return command.poll() is not None


def processes_like(*texts: str) -> list[int]:
    """Return the processes whose command line has one of the texts, in the order of their start."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            start = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
            if any(text in words for text in texts) and int(folder.name) != os.getpid():
                found.append((start, int(folder.name)))
    return [pid for _, pid in sorted(found)]


def _started(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
