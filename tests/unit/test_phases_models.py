"""What lies between two steps is inference where the program has a model, and only there."""

from pathlib import Path

import pytest

import phases_harness
from fake_libraries import WHOLE, make_gymnasium
from phases_harness import Harness

START = """
from gymnasium.core import Env
class Own(Env): pass
env = Own(); env.reset()
for _ in range(3): env.step(1)
"""
STEPS = "for _ in range(3): env.step(1)\n"
FLAX = '''
class Module:
    def apply(self, variables, *, mutable=False):
        """Apply."""
        return variables, mutable
'''
BASELINES = """
class BaseAlgorithm:
    def __init__(self, seed): self.seed = seed
    def learn(self): pass
    def predict(self): pass
    def save(self): pass
"""
KERAS = """
class Layer:
    def __call__(self, value):
        return value
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_gymnasium(tmp_path_factory.mktemp("libraries"), WHOLE)
    for name, content in {
        "flax/linen/module.py": FLAX, "keras/src/layers/layer.py": KERAS,
        "jax/__init__.py": "", "tensorflow/__init__.py": "", "stable_baselines3/__init__.py": "",
        "stable_baselines3/common/base_class.py": BASELINES,
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def phases_of(harness: Harness, libraries: Path, text: str) -> dict[str, int]:
    made = harness.script(START + text + "env.close()\n", libraries)
    made.check_nesting()
    assert made.stderr == ""
    return dict(made.counts())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import jax, tensorflow\n",
        "import flax.linen.module, keras.src.layers.layer\n",
        "import random\nrandom.random()\n",
    ],
)
def test_without_a_model_nothing_is_inference(harness: Harness, libraries: Path, text: str) -> None:
    assert phases_of(harness, libraries, text + STEPS) == {"simulation": 7}


@pytest.mark.parametrize(
    "model",
    [
        "import flax.linen.module as flax\n"
        "assert flax.Module().apply(5, mutable=True) == (5, True)\n",
        "import keras.src.layers.layer as keras\nassert keras.Layer()(5) == 5\n",
    ],
)
def test_a_model_that_cannot_be_watched_acts_between_steps(
    harness: Harness, libraries: Path, model: str
) -> None:
    made = phases_of(harness, libraries, model + STEPS)
    # After each of the steps since the model was used.
    assert made == {"simulation": 7, "inference": 3}


def test_a_library_that_says_when_it_acts_is_believed(harness: Harness, libraries: Path) -> None:
    text = """
import flax.linen.module as flax
from stable_baselines3.common.base_class import BaseAlgorithm
class SAC(BaseAlgorithm):
    def predict(self): return flax.Module().apply(1)
model = SAC(2); assert model.seed == 2
for _ in range(3):
    model.predict(); env.step(1)
env.step(1)
"""
    assert phases_of(harness, libraries, text) == {"simulation": 8, "inference": 3}


def test_the_model_is_as_it_was_after_its_first_use(harness: Harness, libraries: Path) -> None:
    text = """
import inspect
import flax.linen.module as flax
for _ in range(2):
    assert flax.Module.apply.__doc__ == "Apply."
    assert "mutable" in inspect.signature(flax.Module.apply).parameters
    flax.Module().apply({})
assert not hasattr(flax.Module.apply, "__wrapped__")
"""
    assert "inference" not in phases_of(harness, libraries, text)


def test_a_worker_that_steps_for_its_parent_does_not_act(harness: Harness, libraries: Path) -> None:
    text = """
import multiprocessing
import keras.src.layers.layer as keras
def work():
    keras.Layer()(1)
    own = Own(); own.reset(); own.step(1); own.step(1)
process = multiprocessing.get_context("fork").Process(target=work)
process.start(); process.join()
"""
    assert phases_of(harness, libraries, text) == {"simulation": 4 + 3}
