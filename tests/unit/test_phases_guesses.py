"""Classes of the program's own that look like environments or buffers, or only seem to."""

from pathlib import Path

import pytest

import phases_harness
from phases_harness import Harness, Recording

START = """
import time
from rlscope_phases import core, guesses, listener
import rlscope_phases
rlscope_phases.status = "waiting"
assert listener.is_on(), rlscope_phases.status
native = core.native
"""
ENVIRONMENT = """
class Envs:
    def reset(self):
        return [0]
    def step(self, actions):
        return [0], [0.0], [False], [{}]
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def run(harness: Harness, text: str, *paths: Path) -> Recording:
    made = harness.script(START + text, *paths)
    made.check_nesting()
    return made


def test_an_environment_derived_from_nothing(harness: Harness) -> None:
    made = run(
        harness,
        ENVIRONMENT + "guesses.look()\n"
        "envs = Envs(); envs.reset()\n"
        "for _ in range(20): envs.step([0])\n",
    )
    assert made.counts() == {"simulation": 21}


def test_one_that_learns_in_its_step_is_let_go_of(harness: Harness) -> None:
    made = run(
        harness,
        ENVIRONMENT + "class Trainer:\n"
        "    def reset(self): pass\n"
        "    def step(self, batch):\n"
        "        native.learn()\n"
        "        return 1, 2, 3\n"
        "guesses.look()\n"
        "envs, trainer = Envs(), Trainer(); envs.reset()\n"
        "for _ in range(10):\n"
        "    envs.step([0])\n"
        "    assert trainer.step(None) == (1, 2, 3)\n",
    )
    # The first call of the trainer began as simulation, and that is how it was found out.
    assert made.counts() == {"simulation": 12, "backpropagation": 10}


@pytest.mark.parametrize("result", ["None", "1.5", "(1, 2)", "[1, 2, 3]"])
def test_what_returns_no_step_is_let_go_of(harness: Harness, result: str) -> None:
    made = run(
        harness,
        f"class Meter:\n    def reset(self): pass\n    def step(self, value): return {result}\n"
        "guesses.look()\n"
        "meter = Meter()\n"
        f"for _ in range(10): assert meter.step(1) == {result}\n",
    )
    assert made.counts()["simulation"] == 1


@pytest.mark.parametrize(
    "members",
    [
        "def step(self): return 1, 2, 3",
        "def step(self, x): return 1, 2, 3\n    def state_dict(self): return {}",
        "def step(self, x): return 1, 2, 3\n    def forward(self, x): return x",
    ],
)
def test_schedulers_and_networks_are_not_environments(harness: Harness, members: str) -> None:
    made = run(
        harness,
        f"class Other:\n    def reset(self): pass\n    {members}\n"
        "guesses.look()\n"
        "assert type(Other.__dict__['step']) is core.Function\n",
    )
    assert made.ranges == []


def test_a_buffer_is_data_once_there_is_an_environment(harness: Harness) -> None:
    made = run(
        harness,
        ENVIRONMENT + "class ReplayBuffer:\n"
        "    def add(self, *row): return row\n"
        "    def sample(self, size): return [0] * size\n"
        "guesses.look()\n"
        "buffer, envs = ReplayBuffer(), Envs()\n"
        "buffer.add(1)\n"
        "envs.reset()\n"
        "for _ in range(5):\n"
        "    envs.step([0])\n"
        "    assert buffer.add(1, 2) == (1, 2)\n"
        "    assert len(buffer.sample(3)) == 3\n"
        "    native.learn()\n",
    )
    assert made.names()[1:5] == ["simulation", "data", "data", "backpropagation"]
    assert made.counts() == {"simulation": 6, "data": 10, "backpropagation": 5}


def test_libraries_are_left_alone(harness: Harness, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "library"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(ENVIRONMENT)
    made = run(
        harness,
        "import library\nguesses.look()\nlibrary.Envs().reset()\n",
        tmp_path / "site-packages",
    )
    assert made.ranges == []


def test_exceptions_in_a_scope_pass_and_end_it(harness: Harness) -> None:
    made = run(
        harness,
        ENVIRONMENT + "class Memory:\n    def push(self, x): raise KeyError(x)\n"
        "guesses.look()\n"
        "Envs().reset()\n"
        "for _ in range(3):\n"
        "    try:\n        Memory().push(1)\n"
        "    except KeyError as error: assert error.args == (1,)\n"
        "assert native.phase() == core.NONE\n",
    )
    assert made.counts() == {"simulation": 1, "data": 3}
