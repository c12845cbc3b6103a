"""Phases of the frameworks themselves, where they are installed: RLSCOPE_LLM_PYTHON has them.

TRL as a whole program on a CPU, with a model and a tokenizer made on the fly; of the others the
timer classes that their trainers use.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import phases_harness
from conftest import WORKLOADS
from phases_harness import Harness, Range

pytestmark = [pytest.mark.matrix, pytest.mark.slow]

PYTHON = os.environ.get("RLSCOPE_LLM_PYTHON", phases_harness.RL_PYTHON)
TIMEOUT_S = 900


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def phase_rows() -> list[Any]:
    sys.path.insert(0, str(phases_harness.SOURCES))
    try:
        from rlscope_phases import table
    finally:
        sys.path.remove(str(phases_harness.SOURCES))
    text = (phases_harness.SOURCES / "rlscope_phases" / "phases.table").read_text()
    return list(table.parse(text))


def require(modules: str) -> None:
    found = subprocess.run([PYTHON, "-c", f"import {modules}"], capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"not installed: {modules} (RLSCOPE_LLM_PYTHON names a Python that has them)")


def reported(harness: Harness, text: str) -> list[tuple[str, str]]:
    """Return phase and framework's name of the ranges of a program, in their order."""
    program = harness.scratch / f"program_{len(list(harness.scratch.iterdir()))}.py"
    program.write_text(text)
    made = harness.run(program, python=PYTHON, timeout_s=TIMEOUT_S)
    made.check_nesting()
    ranges = sorted(made.ranges, key=lambda one: one.start_ns)
    return [(one.name, one.label) for one in ranges]


def test_verl(harness: Harness) -> None:
    require("verl.utils.profiler")
    text = """
from verl.utils.profiler import marked_timer, simple_timer
times = {}
with marked_timer("step", times):
    with marked_timer("gen", times, color="red"):
        with simple_timer("compute_score", times): pass
    with marked_timer("update_actor", times): pass
assert set(times) == {"step", "gen", "compute_score", "update_actor"}
"""
    assert reported(harness, text) == [
        ("rollout", "gen"), ("reward", "compute_score"), ("rollout", "gen"),
        ("backpropagation", "update_actor"),
    ]  # fmt: skip


def test_skyrl(harness: Harness) -> None:
    require("skyrl.train.utils.utils")
    text = """
from skyrl.train.utils.utils import Timer
times = {}
with Timer("step", times):
    with Timer("generate", times): pass
    with Timer("fwd_logprobs_values_reward", times): pass
assert set(times) == {"step", "generate", "fwd_logprobs_values_reward"}
"""
    assert reported(harness, text) == [
        ("rollout", "generate"),
        ("logprob", "fwd_logprobs_values_reward"),
    ]


def test_rllib(harness: Harness) -> None:
    require("ray.rllib.utils.metrics.metrics_logger")
    text = """
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
logger = MetricsLogger()
with logger.log_time(("timers", "env_runner_sampling_timer")):
    with logger.log_time("rlmodule_inference_timer"): pass
with logger.log_time(("timers", "learner_update_timer")): pass
with logger.log_time("connector_pipeline_timer"): pass
assert logger.peek(("timers", "learner_update_timer")) > 0
"""
    assert reported(harness, text) == [
        ("rollout", "env_runner_sampling_timer"), ("inference", "rlmodule_inference_timer"),
        ("rollout", "env_runner_sampling_timer"), ("backpropagation", "learner_update_timer"),
    ]  # fmt: skip


# Each row of the table that says "real": the library's own class, used as its trainers do.
USES = {
    "verl": """
from verl.utils.profiler import marked_timer
def use(name, place):
    exec("timed(name)", {"__name__": place, "timed": timed, "name": name})
def timed(name):
    with marked_timer(name, {}): pass
""",
    "skyrl": """
import asyncio
from skyrl.train.utils.utils import Timer
def use(name, place):
    with Timer(name, {}): pass
async def use_async(name):
    async with Timer(name, {}): pass
""",
    "ray": """
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
def use(name, place):
    with MetricsLogger().log_time(("timers", name)): pass
""",
}  # fmt: skip
MODULES = {
    "verl": "verl.utils.profiler",
    "skyrl": "skyrl.train.utils.utils",
    "ray": "ray.rllib.utils.metrics.metrics_logger",
}


@pytest.mark.parametrize("library", USES)
def test_each_row_is_of_the_real_class(harness: Harness, library: str) -> None:
    require(MODULES[library])
    rows = [row for row in phase_rows() if row.library == library and row.tested.startswith("real")]
    calls, expected = [], []
    for row in rows:
        for pattern in row.names:
            name = pattern.strip("*") + ("x" if pattern.endswith("*") else "")
            call = f"use({name!r}, {row.inside + '.somewhere' if row.inside else 'main'!r})"
            is_async = row.where[0].endswith("__aenter__")
            calls.append(f"asyncio.run(use_async({name!r}))" if is_async else call)
            expected.append((row.phase, name))
    assert len(expected) > 6
    assert reported(harness, USES[library] + "\n".join(calls)) == expected


def test_d3rlpy_learns_from_its_buffer(harness: Harness) -> None:
    require("d3rlpy")
    text = """
import d3rlpy, numpy, torch
torch.set_num_threads(1)
count = 1000
data = d3rlpy.dataset.MDPDataset(
    numpy.random.randn(count, 4).astype("f"), numpy.random.uniform(-1, 1, (count, 2)).astype("f"),
    numpy.random.randn(count).astype("f"), (numpy.arange(count) % 100 == 99).astype("f"))
d3rlpy.algos.TD3Config(batch_size=64).create(device="cpu").fit(
    data, n_steps=60, n_steps_per_epoch=30, show_progress=False,
    logger_adapter=d3rlpy.logging.NoopAdapterFactory())
"""
    counts = Counter(name for name, _ in reported(harness, text))
    assert (counts["data"], counts["backpropagation"]) == (60, 60)


def test_torchrl(harness: Harness) -> None:
    require("torchrl, tensordict")
    made = harness.run(WORKLOADS / "rl_torchrl.py", python=PYTHON, timeout_s=TIMEOUT_S)
    made.check_nesting()
    truth = json.loads(made.stdout.splitlines()[-1])
    # The first reset is simulation, too.
    times = truth["counts"]["simulation"]
    assert made.counts() == truth["counts"] | {"simulation": times + 1, "inference": times}
    found = phases_harness.phase_ns(made.ranges, truth["start_ns"], truth["end_ns"])
    whole_ns = truth["end_ns"] - truth["start_ns"]
    for phase, points in (("simulation", 0.03), ("data", 0.07), ("backpropagation", 0.07)):
        assert abs(found[phase] - truth["ns"][phase]) <= points * whole_ns, (phase, found, truth)
    assert sum(one.steps or 0 for one in made.ranges) == times == 1920


# How a program is started, and as how many processes.
STARTS = {
    "alone": ((), 1),
    "torchrun": (("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"), 2),
    # Of several processes on one machine it knows only this way; without a GPU they use the CPU.
    "accelerate": (
        ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1",
         "--mixed_precision=no", "--dynamo_backend=no"),
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("start", "trainer"),
    [("alone", "GRPO"), ("alone", "RLOO"), ("torchrun", "GRPO"), ("accelerate", "GRPO")],
)
def test_trl(harness: Harness, tmp_path: Path, start: str, trainer: str) -> None:
    require("trl, transformers, datasets, accelerate")
    command, processes = STARTS[start]
    options = ["--steps=8", "--reward-ms=50", *(["--rloo"] if trainer == "RLOO" else [])]
    made = harness.run(
        *command, WORKLOADS / "llm_grpo.py", tmp_path, *options, python=PYTHON, timeout_s=TIMEOUT_S
    )
    made.check_nesting()
    truths = {int(path.name): json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert len(truths) == processes
    for pid, truth in truths.items():
        hold_to_timers([one for one in made.ranges if one.pid == pid], truth, f"{trainer}Trainer")


def hold_to_timers(ranges: list[Range], truth: dict[str, list[list[int]]], trainer: str) -> None:
    """Hold the phases within the training steps of a process to what it timed itself."""
    spent = {name: sum(end - start for start, end in times) for name, times in truth.items()}
    found: Counter[str] = Counter()
    for start_ns, end_ns in truth["training_step"]:
        found += phases_harness.phase_ns(ranges, start_ns, end_ns)
    step = spent["training_step"]
    prepared = spent["generate"] + spent["rewards"] + spent["logprob"]
    expected = {
        "rollout": spent["generate"], "reward": spent["rewards"], "logprob": spent["logprob"],
        "data": spent["prepare"] - prepared,
        # What lies between the two is learning as well.
        "backpropagation": sum(
            end - start
            for (start, _), (_, end) in zip(truth["compute_loss"], truth["backward"], strict=True)
        ),
    }  # fmt: skip
    for phase, time_ns in expected.items():
        # Of its own time, and of all: what is small is not hidden beside what is long.
        bound = 0.02 * time_ns + 0.01 * step
        assert abs(found[phase] - time_ns) <= bound, (phase, found, expected, step)
    assert set(found) == set(expected)
    # On an idle machine the program itself has some 0.3 % of a step outside of its timers.
    outside = step - spent["prepare"] - expected["backpropagation"]
    assert step * 0.99 - outside <= sum(found.values()) <= step
    # What the reward was told to take, less what lies around it.
    assert spent["reward"] <= found["reward"]
    times = len(truth["training_step"])
    names = Counter((one.name, one.label) for one in ranges)
    assert times == 8
    assert names["reward", "calculate_rewards"] == times
    assert names["rollout", f"{trainer}.transformers.generate"] == times
    assert names["logprob", f"{trainer}._get_per_token_logps_and_entropies"] == len(
        truth["logprob"]
    )
    assert names["backpropagation", f"{trainer}.compute_loss"] == times
