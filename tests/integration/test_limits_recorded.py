"""What limits an iteration is what was planted into it, in programs that were recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import rlscope_analysis
from conftest import WORKLOADS
from cuda_fakes import environment
from recording import rlscope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.root

# Workload, program -> the code that names what is planted. One of each workload is in every run.
ALWAYS = {
    ("planted", "gil_contention"): "gil_contention",
    ("planted", "message_overhead"): "message_overhead",
    ("planted_system", "workers_straggler"): "straggler",
    ("planted_gym", "slow_environment"): "serial_simulation",
    ("planted_gpu", "syncs"): "sync_in_step",
}
MATRIX = {
    ("planted", "simulation"): "serial_simulation",
    ("planted", "backpropagation"): "learner_bound",
    ("planted", "inference"): "inference_bound",
    ("planted", "timer_sleep"): "timer_sleep",
    ("planted", "cpu_contention"): "cpu_contention",
    ("planted", "worker_simulation"): "simulation_bound",
    ("planted", "python_overhead"): "python_overhead",
    ("planted", "network_wait"): "network_wait",
    ("planted", "local_server"): "worker_bound",
    ("planted", "lock_contention"): "lock_contention",
    ("planted", "thread_bound"): "thread_bound",
    ("planted", "blocking_io"): "blocking_io",
    ("planted", "straggler"): "straggler",
    ("planted", "idle_workers"): "idle_workers",
    ("planted", "worker_bound"): "worker_bound",
    ("planted", "data_bound"): "data_bound",
    ("planted", "worker_start_up"): "worker_start_up",
    ("planted", "start_up"): "start_up",
    ("planted_system", "slow_actor"): "simulation_bound",
    ("planted_system", "slow_actor_policy"): "inference_bound",
    ("planted_system", "slow_learner"): "learner_bound",
    ("planted_system", "polling_learner"): "timer_sleep",
    ("planted_system", "parameter_server"): "worker_bound",
    ("planted_system", "replay_server"): "worker_bound",
    ("planted_system", "helper_program"): "worker_bound",
    ("planted_system", "metrics_writer"): "worker_bound",
    ("planted_system", "shared_buffer"): "lock_contention",
    ("planted_system", "workers_in_turn"): "idle_workers",
    ("planted_system", "workers_messages"): "message_overhead",
    ("planted_system", "workers_slow"): "simulation_bound",
    ("planted_system", "blas_workers"): "spin_oversubscribed",
    ("planted_system", "pool_straggler"): "straggler",
    ("planted_system", "pool_slow"): "simulation_bound",
    ("planted_system", "cpu_contention"): "cpu_contention",
    ("planted_system", "fsync"): "blocking_io",
    ("planted_gym", "slow_reset"): "serial_simulation",
    ("planted_gym", "slow_sync_vector"): "serial_simulation",
    ("planted_gym", "frame_limit"): "timer_sleep",
    ("planted_gym", "async_straggler"): "straggler",
    ("planted_gym", "async_slow"): "simulation_bound",
    ("planted_gym", "async_messages"): "message_overhead",
    ("planted_gym", "heavy_update"): "learner_bound",
    ("planted_gym", "large_policy"): "inference_bound",
    ("planted_gym", "python_preprocessing"): "python_overhead",
    ("planted_gym", "step_log"): "blocking_io",
    ("planted_gym", "checkpoints"): "blocking_io",
    ("planted_gym", "monitor_thread"): "gil_contention",
    ("planted_gym", "slow_replay"): "data_bound",
    ("planted_gym", "off_policy_updates"): "learner_bound",
    ("planted_gym", "evaluation"): "serial_simulation",
    ("planted_gym", "torch_threads"): "spin_oversubscribed",
    ("planted_gym", "new_arrays"): "os_kernel",
    ("planted_gym", "copied_arrays"): "native_code",
    ("planted_gym", "starved_loader"): "worker_bound",
    ("planted_gym", "threads_of_environments"): "gil_contention",
    ("planted_gpu", "kernels"): "gpu_bound",
    ("planted_gpu", "launches"): "launch_bound",
    ("planted_gpu", "copies"): "copy_bound",
    ("planted_gpu", "streams"): "gpu_bound",
    ("planted_gpu", "processes"): "gpu_bound",
    ("planted_gpu", "eager"): "launch_bound",
}  # fmt: skip
BALANCED = (
    ("planted", "balanced"), ("planted_system", "balanced_naps"),
    ("planted_system", "balanced_thread"), ("planted_system", "balanced_lock"),
    ("planted_system", "balanced_queue"), ("planted_system", "balanced_workers"),
    ("planted_system", "balanced_pool"), ("planted_gym", "balanced_plain"),
    ("planted_gym", "balanced_sync"), ("planted_gym", "balanced_off_policy"),
)  # fmt: skip
# More iterations of programs in which something happens in some of them only, or much comes before.
# One that hands the GIL to and fro at each call of torch needs 2 s for each. A process that ends by
# _exit keeps the last 0.1 s of its activity on the GPU.
ITERATIONS = {"evaluation": 200, "starved_loader": 1500, "monitor_thread": 8, "processes": 600}
KNOWN_GPU = tuple(name for workload, name in MATRIX | ALWAYS if workload == "planted_gpu")
# Whoever else uses the machine takes CPUs, so that processes of the program share the one that is
# left: where nothing of that is planted, it is no cause of the program.
OF_THE_MACHINE = {"cpu_wait", "cpu_taken_by_others", "cpu_contention"}
# What a training is made of. A part of it that takes long is no false cause.
OF_THE_TRAINING = {
    "serial_simulation", "simulation_bound", "inference_bound", "learner_bound", "data_bound",
}  # fmt: skip


class Planted:
    """What was found in the trace of a program, and what the program timed itself."""

    def __init__(self, folder: Path, workload: str, name: str) -> None:
        self.trace = folder / "trace.duckdb"
        count = str(ITERATIONS.get(name, 60))
        program = [sys.executable, WORKLOADS / f"{workload}.py", name, count]
        done = rlscope("-o", self.trace, "--", *program)
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        self.timed = json.loads(lines[-1]) if lines else {}
        # Automatic phases show iterations by themselves; where they are marked, the mark counts.
        per = () if workload == "planted_gym" else ("--per", "iteration")
        shown = rlscope("summarize", self.trace, *per, "--format", "json")
        reported = json.loads(shown.stdout)["findings"]
        self.findings: list[dict[str, Any]] = [
            found for found in reported if found["code"] not in OF_THE_MACHINE - {name}
        ]


def named(found: dict[tuple[str, str], str], *marks: pytest.MarkDecorator) -> list[Any]:
    return [
        pytest.param(workload, name, code, id=f"{workload}-{name}", marks=marks)
        for (workload, name), code in found.items()
    ]


@pytest.fixture(autouse=True)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a server outside the trace for the program that asks one."""
    if "planted-network_wait" not in request.node.name:
        yield
        return
    command = [sys.executable, WORKLOADS / "planted.py", "server", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        monkeypatch.setenv("PLANTED_SERVER_PORT", process.stdout.readline().strip())
        yield
        process.kill()


@pytest.fixture(autouse=True)
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs that ask for a GPU find the fake one."""
    if "planted_gpu" in request.node.name:
        for name, value in environment().items():
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("workload", "name", "code"), [*named(ALWAYS), *named(MATRIX, pytest.mark.matrix)]
)
def test_what_was_planted_is_named_first(
    tmp_path: Path, workload: str, name: str, code: str
) -> None:
    reported = Planted(tmp_path, workload, name).findings
    assert reported, "no finding"
    assert reported[0]["code"] == code, reported
    assert [found["share"] for found in reported] == sorted(
        (found["share"] for found in reported), reverse=True
    )


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        pytest.param(workload, name, marks=() if at == 0 else pytest.mark.matrix)
        for at, (workload, name) in enumerate(BALANCED)
    ],
)
def test_a_balanced_program_has_no_false_cause(tmp_path: Path, workload: str, name: str) -> None:
    reported = Planted(tmp_path, workload, name).findings
    false = [found for found in reported if found["code"] not in OF_THE_TRAINING]
    assert [found for found in false if found["share"] >= 0.1 and found["of_path"]] == []


@pytest.mark.matrix
@pytest.mark.parametrize("name", KNOWN_GPU, ids=lambda name: f"planted_gpu-{name}")
def test_work_of_the_gpu_has_its_part_of_the_path(tmp_path: Path, name: str) -> None:
    planted = Planted(tmp_path, "planted_gpu", name)
    with rlscope_analysis.open(planted.trace) as trace:
        ((gpu_ns, total_ns),) = trace.sql(
            "SELECT coalesce(sum(duration_ns) FILTER (WHERE cause = 'gpu'), 0)::BIGINT,"
            " sum(duration_ns)::BIGINT"
            " FROM critical_path"
        ).fetchall()
    planted_ns = planted.timed["planted_ns"]
    # Nothing else of the machine can be in it: the GPU's time is simulated.
    assert gpu_ns / total_ns == pytest.approx(planted_ns / total_ns, abs=0.05)
