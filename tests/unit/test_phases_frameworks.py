"""What frameworks call and time becomes phases, with the frameworks' own names beside them.

The classes here have the shape of those that the table names; the libraries themselves are tried in
tests/integration/test_phases_frameworks.py, where they are installed.
"""

from pathlib import Path

import pytest

import phases_harness
from phases_harness import Harness, Recording

NEMO = """
class Timer:
    def start(self, label, should_log=True): assert isinstance(label, str)
    def stop(self, label, should_log=True): return 1.5
class ThreadSafeTimer(Timer):
    def start(self, label, should_log=True): super().start(label, should_log)
    def stop(self, label, should_log=True): return super().stop(label, should_log)
"""
SLIME = """
class Timer:
    def start(self, name): assert isinstance(name, str)
    def end(self, name): pass
"""
AREAL = """
from contextlib import contextmanager
class DistributedStatsTracker:
    @contextmanager
    def record_timing(self, key):
        yield key
tracker = DistributedStatsTracker()
# As a module of theirs has it: bound before anybody could look.
record_timing = tracker.record_timing
"""
# Where it is given no name it has that of its caller, whom it looks for two frames up.
RLINF = """
import functools, inspect
from contextlib import contextmanager
class Worker:
    times = {}
    @contextmanager
    def worker_timer(self, tag=None):
        if tag is None: tag = inspect.stack()[2].function
        self.times[tag] = self.times.get(tag, 0) + 1
        yield
    @staticmethod
    def timer(tag=None):
        def decorator(function):
            @functools.wraps(function)
            def wrapper(self, *args):
                with self.worker_timer(tag or function.__name__): return function(self, *args)
            return wrapper
        return decorator
"""
LIBRARIES = {
    "codetiming/_timer.py": """
class Timer:
    def __init__(self, name=None): self.name = name
    def start(self): pass
    def stop(self): return 1.5
    def __enter__(self): self.start(); return self
    def __exit__(self, *error): self.stop()
""",
    "skyrl/train/utils/utils.py": """
import sys
class Timer:
    callers = []
    def __init__(self, message): self.message = message
    def __enter__(self): self.callers.append(sys._getframe(1).f_code.co_name); return self
    def __exit__(self, *error): self.callers.append(sys._getframe(1).f_code.co_name)
    async def __aenter__(self): return self
    async def __aexit__(self, *error): pass
""",
    "nemo_rl/utils/timer.py": NEMO,
    "slime/utils/timer.py": SLIME,
    "slime/observability/timer.py": SLIME,
    "areal/utils/stats_tracker.py": AREAL,
    "rlinf/scheduler/worker/worker.py": RLINF,
    "rlinf/utils/timers.py": """
class NamedTimer:
    def start(self, name=""): pass
    def stop(self, name=""): pass
""",
    "openrlhf/trainer/ppo_trainer.py": """
from abc import ABC, abstractmethod
class BasePPOTrainer(ABC):
    @abstractmethod
    def ppo_train(self): pass
    def broadcast_to_vllm(self): pass
class Later(BasePPOTrainer):
    def ppo_train(self): return self.broadcast_to_vllm()
""",
    "vllm/entrypoints/llm.py": "class LLM:\n    def generate(self, prompts): return prompts\n",
    "sglang/srt/entrypoints/engine.py": "class Engine:\n    def generate(self, n): return n\n",
    "sheeprl.py": "",
    # Not those that may be installed.
    "stable_baselines3/__init__.py": "",
    "sb3_contrib/__init__.py": "",
    "stable_baselines3/common/evaluation.py": "def evaluate_policy(model): return model\n",
    "sb3_contrib/ars/ars.py": "from stable_baselines3.common.evaluation import evaluate_policy\n",
    "verl/trainer/ppo/v1/trainer_base.py": """
from codetiming._timer import Timer
def step():
    with Timer("gen"): pass
""",
    "mine.py": """
class Trainer:
    def collect(self): return list(self.parts())
    def parts(self): yield 1
    async def wait(self): return 1
class Clock:
    def begin(self, what): pass
    def finish(self, what): pass
""",
}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    for name, content in LIBRARIES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def run(harness: Harness, libraries: Path, text: str) -> Recording:
    made = harness.script(text, libraries)
    made.check_nesting()
    assert made.stderr == ""
    return made


def reported(made: Recording) -> list[tuple[str, str]]:
    """Return phase and framework's name of each range, in the order in which they began."""
    return [(one.name, one.label) for one in sorted(made.ranges, key=lambda one: one.start_ns)]


VERL = """
from codetiming._timer import Timer
import verl.trainer.ppo.v1.trainer_base as v1
def timed(*names):
    with Timer(names[0]): return timed(*names[1:]) if names[1:] else None
"""


def test_a_timer_that_is_a_phase_has_both_names(harness: Harness, libraries: Path) -> None:
    made = run(
        harness, libraries, VERL + "for name in ('step', 'gen', 'reward', 'old_log_prob', 'ref',"
        " 'adv', 'update_critic', 'update_actor', 'update_weights', 'other', None): timed(name)\n",
    )  # fmt: skip
    assert reported(made) == [
        ("rollout", "gen"), ("reward", "reward"), ("logprob", "old_log_prob"), ("logprob", "ref"),
        ("advantage", "adv"), ("backpropagation", "update_critic"),
        ("backpropagation", "update_actor"), ("weight_sync", "update_weights"),
    ]  # fmt: skip


def test_a_wait_that_a_framework_calls_work_is_a_wait(harness: Harness, libraries: Path) -> None:
    made = run(harness, libraries, VERL + "timed('gen'); v1.step(); timed('gen')\n")
    assert reported(made) == [("rollout", "gen"), ("wait", "gen"), ("rollout", "gen")]


def test_the_innermost_timer_counts(harness: Harness, libraries: Path) -> None:
    made = run(harness, libraries, VERL + "timed('gen', 'step', 'reward', 'compute_score')\n")
    assert reported(made) == [("rollout", "gen"), ("reward", "reward"), ("rollout", "gen")]


def test_a_timer_sees_who_uses_it(harness: Harness, libraries: Path) -> None:
    """SkyRL logs the line of the trainer: not one of ours."""
    text = """
from skyrl.train.utils.utils import Timer
def trainer():
    with Timer("generate"): pass
trainer()
assert Timer.callers == ["trainer", "trainer"], Timer.callers
"""
    assert harness.script(text, libraries).names() == ["rollout"]


def test_log_probabilities_of_an_update_are_learning(harness: Harness, libraries: Path) -> None:
    made = run(harness, libraries, VERL + "timed('update_actor', 'old_log_prob')\n")
    assert reported(made) == [("backpropagation", "update_actor")]


def test_a_timer_ends_by_itself_whatever_is_open(harness: Harness, libraries: Path) -> None:
    text = VERL + (
        "first, second = Timer('gen'), Timer('reward')\n"
        "first.start(); second.start(); first.stop(); timed('adv'); second.stop()\n"
        # Never stopped, and begun again; stopped without a start; an error of the program's.
        "first.start(); first.start(); first.stop(); first.stop()\n"
        "try:\n"
        "    with first: raise KeyError\n"
        "except KeyError: pass\n"
        # Deeper than anybody nests: what is too deep belongs to the one around.
        "names = ('gen', 'reward') * 20\n"
        "timed(*names)\n"
    )
    made = reported(run(harness, libraries, text))
    assert made[:5] == [
        ("rollout", "gen"), ("reward", "reward"), ("advantage", "adv"), ("reward", "reward"),
        ("rollout", "gen"),
    ]  # fmt: skip
    assert made[5:7] == [("rollout", "gen"), ("rollout", "gen")]
    assert len(made) == 7 + 2 * 16 - 1


def test_threads_have_timers_of_their_own(harness: Harness, libraries: Path) -> None:
    text = VERL + (
        "import threading\n"
        "outer = Timer('gen'); outer.start()\n"
        "def work():\n"
        "    timed('reward'); outer.stop()\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
        "outer.stop()\n"
    )
    made = run(harness, libraries, text)
    assert sorted(reported(made)) == [("reward", "reward"), ("rollout", "gen")]
    assert len({one.tid for one in made.ranges}) == 2


def test_timers_of_the_others(harness: Harness, libraries: Path) -> None:
    text = """
import asyncio
import skyrl.train.utils.utils as skyrl, nemo_rl.utils.timer as nemo
import slime.utils.timer as slime, slime.observability.timer as newer
import areal.utils.stats_tracker as areal, rlinf.scheduler.worker.worker as rlinf
with skyrl.Timer("generate"): pass
async def train():
    async with skyrl.Timer("sync_weights"): pass
    async with skyrl.Timer(message="wait_for_generation_buffer"): pass
asyncio.run(train())
timer = nemo.ThreadSafeTimer()
timer.start("policy_training"); assert timer.stop("policy_training") == 1.5
timer.start(label="idle/worker"); timer.stop(label="idle/worker")
for module in (slime, newer):
    timer = module.Timer(); timer.start("ref_log_probs"); timer.end("ref_log_probs")
with areal.record_timing("train_step") as key: assert key == "train_step"
with areal.tracker.record_timing("rollout"): pass
with areal.tracker.record_timing("something"): pass
import rlinf.utils.timers as rlinf_timers
timer = rlinf_timers.NamedTimer(); timer.start("cal_adv_and_returns")
timer.stop(name="cal_adv_and_returns"); timer.start(); timer.stop()
class Worker(rlinf.Worker):
    @rlinf.Worker.timer("env_interact_step")
    def step(self): pass
    def run_inference(self):
        with self.worker_timer(): return 3
    def something(self):
        with self.worker_timer(): return 4
    def explicit(self):
        with self.worker_timer(tag="run_training"): return 5
worker = Worker(); worker.step()
assert [worker.run_inference(), worker.something(), worker.explicit()] == [3, 4, 5]
assert set(worker.times) == {"env_interact_step", "run_inference", "something", "run_training"}
@areal.record_timing("ref_logp")
def decorated(): return 5
assert decorated() == 5
"""
    assert reported(run(harness, libraries, text)) == [
        ("rollout", "generate"), ("weight_sync", "sync_weights"),
        ("wait", "wait_for_generation_buffer"), ("backpropagation", "policy_training"),
        ("wait", "idle/worker"), ("logprob", "ref_log_probs"), ("logprob", "ref_log_probs"),
        ("backpropagation", "train_step"), ("rollout", "rollout"),
        ("advantage", "cal_adv_and_returns"), ("simulation", "env_interact_step"),
        ("logprob", "run_inference"), ("backpropagation", "run_training"),
    ]  # fmt: skip


def test_functions_and_those_of_subclasses(harness: Harness, libraries: Path) -> None:
    text = """
from openrlhf.trainer.ppo_trainer import BasePPOTrainer, Later
from vllm.entrypoints.llm import LLM
from sglang.srt.entrypoints.engine import Engine
class Own(BasePPOTrainer):
    def ppo_train(self): return 1
Later().ppo_train(); assert Own().ppo_train() == 1
assert LLM().generate(["a"]) == ["a"] and Engine().generate(2) == 2
"""
    assert reported(run(harness, libraries, text)) == [
        ("backpropagation", "ppo_train"), ("weight_sync", "broadcast_to_vllm"),
        ("backpropagation", "ppo_train"), ("backpropagation", "ppo_train"),
        ("rollout", "LLM.generate"), ("rollout", "Engine.generate"),
    ]  # fmt: skip


OWN = """
mine | *    | mine | call Trainer.collect | - | rollout | main | no
"    | "    | "    | timer Clock.begin Clock.finish 1 | up* | backpropagation | main | no
"    | >=3  | "    | call Trainer.parts | - | reward | main | no
verl | *    | codetiming._timer | timer Timer.start Timer.stop .name | gen | evaluation | main | no
"""


def own(harness: Harness, libraries: Path, rows: str, text: str) -> Recording:
    program = harness.scratch / f"program_{len(list(harness.scratch.iterdir()))}.py"
    program.write_text(f"import os\nassert 'RLSCOPE_PHASES' in os.environ\n{text}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLSCOPE_PHASES", rows.strip())
        made = harness.run(program, paths=(libraries,))
    made.check_nesting()
    assert made.stderr == ""
    return made


def test_rows_of_the_users_own_come_first(harness: Harness, libraries: Path) -> None:
    text = VERL + (
        "import mine\nmine.__version__ = '3.1'\n"
        "assert mine.Trainer().collect() == [1]\n"
        "clock = mine.Clock(); clock.begin('update'); clock.finish('update'); clock.begin('down')\n"
        "timed('gen')\n"
    )
    assert reported(own(harness, libraries, OWN, text)) == [
        ("rollout", ""), ("backpropagation", "update"), ("evaluation", "gen"),
    ]  # fmt: skip


FAILURES = "from rlscope_phases import failures\nprint(*failures.counts, sep='\\n')\n"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("call Trainer.missing", "mine\tAttributeError\t"),
        ("call Trainer.wait", "mine\tTypeError\tTrainer.wait is no plain function"),
        ("call Trainer.parts", "mine\tTypeError\tTrainer.parts is no plain function"),
        ("call Missing.collect", "mine\tAttributeError\t"),
    ],
)
def test_what_a_row_does_not_find_is_counted(
    harness: Harness, libraries: Path, where: str, said: str
) -> None:
    rows = OWN.replace("call Trainer.collect", where)
    made = own(harness, libraries, rows, "import mine\nmine.Trainer().collect()\n" + FAILURES)
    assert said in made.stdout
    assert made.counts() == {}


def test_an_unknown_framework_is_reported(harness: Harness, libraries: Path) -> None:
    text = """
import sys
from rlscope_phases import failures, listener
assert listener.is_on()
said, failures.report = [], lambda text: said.append(text)
import sheeprl
assert said == ["no row\\tsheeprl"], said
"""
    run(harness, libraries, text)


def test_a_function_has_another_phase_where_another_module_calls_it(
    harness: Harness, libraries: Path
) -> None:
    text = """
from stable_baselines3.common import evaluation
from sb3_contrib.ars import ars
for module in (evaluation, ars, evaluation):
    assert module.evaluate_policy(1) == 1
assert ars.evaluate_policy.__wrapped__ is evaluation.evaluate_policy.__wrapped__
"""
    # An evolution strategy acts by evaluating its candidates.
    phases = [phase for phase, _ in reported(run(harness, libraries, text))]
    assert phases == ["evaluation", "rollout", "evaluation"]


@pytest.mark.parametrize(
    ("versions", "is_meant"), [(">=2", False), (">=1,<2", True), ("<1.5", False), ("==1.5", True)]
)
def test_a_library_that_says_its_version_late_is_asked_for(
    harness: Harness, libraries: Path, versions: str, is_meant: bool
) -> None:
    installed = libraries / "late_version-1.5.0.dist-info"
    installed.mkdir(exist_ok=True)
    (installed / "METADATA").write_text("Name: late-version\nVersion: 1.5.0\n")
    (libraries / "late_version").mkdir(exist_ok=True)
    late = "from late_version import train\n__version__ = '1.5.0'\n"
    (libraries / "late_version" / "__init__.py").write_text(late)
    (libraries / "late_version" / "train.py").write_text("def update(): pass\n")
    row = f"late-version | {versions} | late_version.train | call update | - | reward | main | no"
    made = own(harness, libraries, row, "import late_version\nlate_version.train.update()\n")
    assert made.counts()["reward"] == is_meant
