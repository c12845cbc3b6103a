"""Functions that JAX compiles act, learn or simulate as a whole: which, shows while one is traced.

The jax here is a fake of the same shape: a function runs in Python in its first call, never again.
"""

from pathlib import Path

import pytest

import phases_harness
from fake_libraries import WHOLE, make_gymnasium
from phases_harness import Harness, Recording

API = """
import functools
class Compiled:
    def __init__(self, fun):
        self.__wrapped__, self.is_traced = fun, False
    def __call__(self, *args):
        if not self.is_traced:
            self.is_traced, self.result = True, self.__wrapped__(*args)
        return self.result
    def __reduce__(self):
        return Compiled, (self.__wrapped__,)
def jit(fun=None, **options):
    return functools.partial(jit, **options) if fun is None else Compiled(fun)
def vjp(fun, *args):
    return fun(*args), lambda cotangent: cotangent
def grad(fun):
    return lambda *args: vjp(fun, *args)[1](1.0)
"""
JAX = """
from jax._src.api import jit, vjp, grad
import jax.nn, jax.monitoring
"""
MONITORING = """
listeners = []
register_event_duration_secs_listener = listeners.append
"""
NN = """
import jax
@jax.jit
def relu(value): return value
"""
BRAX = """
class Env:
    def reset(self, key): return key
    def step(self, state, action): return state
"""
START = """
import functools, jax
from gymnasium.core import Env
class Own(Env): pass
@jax.jit
def act(params, obs): return params
@functools.partial(jax.jit, donate_argnums=0)
def update(params): return jax.grad(lambda params: params)(params)
@jax.jit(static_argnames="n")
def returns(values, n=1): return values
"""
TRAINING = """
env = Own(); env.reset()
for _ in range(4):
    for _ in range(5):
        act(1, 2); env.step(1)
    act(1, 2)
    for _ in range(3):
        returns([1]); update(1)
env.close()
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_gymnasium(tmp_path_factory.mktemp("libraries"), WHOLE)
    for name, content in {
        "jax/__init__.py": JAX, "jax/_src/api.py": API, "jax/nn/__init__.py": NN,
        "jax/monitoring.py": MONITORING,
        "brax/envs/base.py": BRAX,
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def run(harness: Harness, libraries: Path, text: str) -> Recording:
    made = harness.script(START + text, libraries)
    made.check_nesting()
    assert made.stderr == ""
    return made


def test_a_program_of_separate_functions_has_its_phases(harness: Harness, libraries: Path) -> None:
    made = run(harness, libraries, TRAINING)
    counts = made.counts()
    assert counts["simulation"] == 1 + 4 * 5
    # The value of the last observation is asked for before each update.
    assert counts["inference"] == 4 * 5 + 4
    # What comes in between belongs to the update it is in; before it are the advantages.
    assert counts["backpropagation"] == 4
    assert counts["data"] == 3


def test_gradients_of_what_is_not_compiled_are_learning(harness: Harness, libraries: Path) -> None:
    text = "env = Own(); env.reset(); env.step(1)\njax.grad(lambda value: value)(1)\nenv.step(1)\n"
    made = run(harness, libraries, text + "env.close()\n")
    assert made.names()[-2:] == ["backpropagation", "simulation"]


def test_what_steps_environments_in_it_is_simulation(harness: Harness, libraries: Path) -> None:
    text = """
import brax.envs.base
class Ant(brax.envs.base.Env):
    def step(self, state, action): return super().step(state, action)
    def reset(self, key): return super().reset(key)
ant = Ant()
step, reset = jax.jit(ant.step), jax.jit(ant.reset)
@jax.jit
def rollout(state): return [step(state, act(1, 2)) for _ in range(10)]
state = reset(0)
for _ in range(5): step(state, act(1, 2))
rollout(state); rollout(state); reset(0)
"""
    made = run(harness, libraries, text)
    steps = [one.steps for one in made.ranges if one.name == "simulation"]
    # Of the rollout nobody knows what it is while it is traced, in its first call. How many steps
    # one is was not seen; a reset is none.
    assert steps == [0, *[None] * 5, None, 0]


OWN = """
class Walk:
    def reset(self, key): return key
    def step(self, state, action): return state, 1.0, False, {}
class Compiled:
    @functools.partial(jax.jit, static_argnums=0)
    def reset(self, key): return key
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, state, action): return state, 1.0, False, {}
@jax.jit
def env_reset(key): return key
@jax.jit
def env_step(state, action): return state, 1.0, False, {}
"""


@pytest.mark.parametrize(
    ("step", "steps"),
    [
        ("walk = Walk(); step = jax.jit(walk.step)", None),
        ("walk = Compiled(); walk.reset(0); step = walk.step", 1),
        ("env_reset(0); step = env_step", None),
    ],
    ids=["a method that is compiled", "a class with compiled methods", "functions"],
)
def test_environments_of_ones_own_that_are_compiled(
    harness: Harness, libraries: Path, step: str, steps: int | None
) -> None:
    text = f"""
{OWN}
{step}
for _ in range(6):
    for _ in range(5): act(1, 2); step(1, 2)
    update(1)
"""
    made = run(harness, libraries, text)
    taken = [one.steps for one in made.ranges if one.name == "simulation" and one.steps != 0]
    assert taken == [steps] * 30
    assert made.counts()["backpropagation"] == 6
    # What acts first is not known to, where nothing was reset before.
    assert made.counts()["inference"] >= 29


def test_an_update_ends_where_something_else_compiled_is_called(
    harness: Harness, libraries: Path
) -> None:
    """Also in a thread that steps no environment that is known: it is not all learning."""
    text = "for _ in range(9):\n    returns([1]); update(1)\n"
    # The first two may be whole trainings.
    assert run(harness, libraries, text).counts() == {"backpropagation": 7}


def test_what_is_compiled_after_an_update_belongs_to_it(harness: Harness, libraries: Path) -> None:
    """As the operations of a target network, one by one, the first time."""
    text = """
import time
from jax import monitoring
env = Own(); env.reset(); env.step(1)
update(1)
end = time.monotonic() + 0.05
while time.monotonic() < end: pass
print(time.monotonic_ns())
EVENT
env.step(1); env.close()
"""
    tell = "for heard in monitoring.listeners: heard('/x/backend_compile_duration', 1.0)"
    goes_on = []
    for event in (tell, ""):
        made = run(harness, libraries, text.replace("EVENT", event))
        (learning,) = (one for one in made.ranges if one.name == "backpropagation")
        goes_on.append(learning.end_ns > int(made.stdout))
    assert goes_on == [True, False]


def test_what_is_compiled_without_an_environment_is_no_model(
    harness: Harness, libraries: Path
) -> None:
    text = "for _ in range(3):\n    returns([1]); act(1, 2); update(1)\n"
    # The third call of update is the first of which that is known.
    assert run(harness, libraries, text).counts() == {"backpropagation": 1}


def test_a_whole_training_in_one_has_no_phase(harness: Harness, libraries: Path) -> None:
    text = """
import brax.envs.base
class Ant(brax.envs.base.Env):
    def step(self, state, action): return super().step(state, action)
ant = Ant()
@jax.jit
def train(state):
    state = ant.step(ant.reset(state), act(1, 2))
    return update(state)
for _ in range(3): train(0)
"""
    assert run(harness, libraries, text).counts() == {}


def test_what_learns_once_or_twice_may_be_a_whole_training(
    harness: Harness, libraries: Path
) -> None:
    """It may hold an environment of its own, of which nothing is known."""
    assert run(harness, libraries, "update(1); update(2)\n").counts() == {}


def test_what_is_compiled_is_as_it_was(harness: Harness, libraries: Path) -> None:
    text = """
import copy, inspect, pickle
from jax._src.api import Compiled
from rlscope_phases import core
class Policy:
    @jax.jit
    def method(self, value): return value
    @staticmethod
    @jax.jit
    def static(value): return value
assert type(act) is core.native.Hook and type(jax.nn.relu) is Compiled
assert list(inspect.signature(act).parameters) == ["params", "obs"]
assert type(copy.copy(act)) is Compiled and act == act and {act: 1}[act] == 1
assert Policy().method.__self__ is not None and Policy.static(3) == 3
assert act.is_traced is False
act(1, 2)
assert act.is_traced is True
try:
    jax.jit(lambda: 1 / 0)()
except ZeroDivisionError:
    pass
else:
    raise AssertionError
"""
    run(harness, libraries, text)
