"""Each call into an environment says how many steps of environments it was."""

from pathlib import Path

import pytest

import phases_harness
from phases_harness import Harness

# Numbers that have a length, as arrays do, and one that has none and is no int, as numpy's.
ARRAYS = """
class Flags:
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
class Scalar:
    pass
class Shapeless:
    def __len__(self): raise TypeError("len() of unsized object")
"""
SINGLE = """
from gymnasium.core import Env, Wrapper
class Count(Env):
    flag = False
    def reset(self, seed=None): return 0, {}
    def step(self, action):
        if action < 0: raise ValueError("negative action")
        return 0, 0.0, self.flag, False, {}
"""
# As much of the libraries as there is to hook.
GYMNASIUM = """
class Env:
    def reset(self, seed=None): raise NotImplementedError
    def step(self, action): raise NotImplementedError
class Wrapper(Env):
    def __init__(self, env): self.env = env
    def reset(self, seed=None): return self.env.reset(seed)
    def step(self, action): return self.env.step(action)
"""
PETTINGZOO = """
class AECEnv:
    def reset(self): pass
    def step(self, action): return None
    def last(self): return 0, 0.0, False, False, {}
class ParallelEnv:
    def reset(self): return {}, {}
    def step(self, actions): return {}, {}, {}, {}, {}
"""
ENVPOOL = """
class EnvPoolMixin:
    def async_reset(self): pass
    def send(self, action, env_id=None): pass
    def recv(self, reset=False): return 0, Flags(3), Flags(3), Flags(3), {}
    def step(self, action, env_id=None):
        self.send(action, env_id)
        return self.recv()
"""
TORCHRL = """
class EnvBase:
    batch_size = ()
    def reset(self): return {}
    def step(self, tensordict): return {}
    def step_and_maybe_reset(self, tensordict): return self.step(tensordict), {}
"""
BASELINES = """
class VecEnv:
    def reset(self): return 0
    def step_async(self, actions): pass
    def step_wait(self): pass
    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()
"""
RSL_RL = """
class VecEnv:
    def get_observations(self): return {}
    def step(self, actions): raise NotImplementedError
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for module, text in {
        "gymnasium.core": GYMNASIUM,
        "pettingzoo.utils.env": PETTINGZOO,
        "envpool.python.envpool": ARRAYS + ENVPOOL,
        "torchrl.envs.common": TORCHRL,
        "stable_baselines3.common.vec_env.base_vec_env": BASELINES,
        "rsl_rl.env.vec_env": RSL_RL,
    }.items():
        path = folder.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True)
        for package in path.relative_to(folder).parents[:-1]:
            (folder / package / "__init__.py").touch()
        path.write_text(text)
    return folder


def steps(harness: Harness, libraries: Path, *text: str) -> list[int | None]:
    """Return the steps of each call into an environment, in their order."""
    made = harness.script("\n".join(text), libraries)
    made.check_nesting()
    assert all(one.steps is None for one in made.ranges if one.name != "simulation")
    ranges = sorted(made.ranges, key=lambda one: one.end_ns)
    return [one.steps for one in ranges if one.name == "simulation"]


@pytest.mark.parametrize("flag", ["False", "1.0", "None", "Scalar()", "Shapeless()", "{'a': True}"])
def test_an_environment_takes_one_step(harness: Harness, libraries: Path, flag: str) -> None:
    found = steps(
        harness, libraries, ARRAYS, SINGLE,
        f"Count.flag = {flag}",
        "env = Wrapper(Wrapper(Count()))",
        "env.reset(); env.step(1); env.step(2); env.reset(); env.step(1)",
    )  # fmt: skip
    assert found == [0, 1, 1, 0, 1]


def test_scalars_of_one_type_do_not_hide_arrays_of_another(
    harness: Harness, libraries: Path
) -> None:
    found = steps(
        harness, libraries, ARRAYS, SINGLE, "env = Count(); env.reset()",
        "for flag in (Scalar(), Flags(3), Shapeless(), Scalar(), Flags(5), [True, False]):",
        "    env.flag = flag; env.step(1)",
    )  # fmt: skip
    assert found == [0, 1, 3, 1, 1, 5, 2]


def test_a_step_that_fails_is_none(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries, SINGLE, "env = Wrapper(Count()); env.reset()",
        "for action in (1, -1, 2):",
        "    try: env.step(action)",
        "    except ValueError: pass",
    )  # fmt: skip
    assert found == [0, 1, 0, 1]


def test_what_a_vector_contains_is_counted_once(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries, ARRAYS, SINGLE,
        "from stable_baselines3.common.vec_env.base_vec_env import VecEnv",
        "class Dummy(VecEnv):",
        "    def __init__(self): self.envs = [Wrapper(Count()) for _ in range(16)]",
        "    def reset(self): return [env.reset() for env in self.envs]",
        "    def step_wait(self):",
        "        results = [env.step(1) for env in self.envs]",
        "        return results, Flags(16), Flags(16), [{}] * 16",
        "class VecWrapper(VecEnv):",
        "    def __init__(self, venv): self.venv = venv",
        "    def reset(self): return self.venv.reset()",
        "    def step_async(self, actions): self.venv.step_async(actions)",
        "    def step_wait(self): return self.venv.step_wait()",
        "env = VecWrapper(Dummy()); env.reset()",
        "env.step(0); env.step(0)",
        # In two halves: the second is the step.
        "env.step_async(0); env.step_wait()",
    )  # fmt: skip
    assert found == [0, 16, 16, 0, 16]


def test_a_vector_of_the_programs_own_tells_by_what_it_returns(
    harness: Harness, libraries: Path
) -> None:
    found = steps(
        harness, libraries, ARRAYS, SINGLE,
        "class Vector:",
        "    def __init__(self): self.envs = [Count() for _ in range(3)]",
        "    def reset(self): return [env.reset() for env in self.envs], {}, 0",
        "    def step(self, actions):",
        "        results = [env.step(1) for env in self.envs]",
        "        return results, [0.0] * 3, {}",
        # Classes of the program are looked at when its first environment is reset.
        "Count().reset()",
        "vector = Vector(); vector.reset(); vector.step(0)",
    )  # fmt: skip
    assert found == [0, 0, 3]


def test_agents_of_one_environment_take_one_step(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries, "from pettingzoo.utils.env import AECEnv, ParallelEnv",
        "class Turns(AECEnv): pass",
        "class Together(ParallelEnv): pass",
        "env = Turns(); env.reset(); env.last(); env.step(0)",
        "env = Together(); env.reset(); env.step({})",
    )  # fmt: skip
    assert found == [0, 0, 1, 0, 1]


def test_a_pool_counts_the_actions_that_are_sent(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries, "from envpool.python.envpool import EnvPoolMixin, Flags",
        "env = EnvPoolMixin(); env.async_reset()",
        # The first results are those of the reset.
        "env.recv(); env.send(Flags(2)); env.recv(); env.step(Flags(3))",
        "env.send({'arm': Flags(2)})",
    )  # fmt: skip
    assert found == [0, 0, 2, 0, 3, None]


def test_batches_of_tensors_count_by_their_shape(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries, "from torchrl.envs.common import EnvBase",
        "class Batched(EnvBase): batch_size = (4, 2)",
        "class Odd(EnvBase): batch_size = None",
        "for env in (EnvBase(), Batched(), Odd()):",
        "    env.reset(); env.step({}); env.step_and_maybe_reset({})",
    )  # fmt: skip
    assert found == [0, 1, 1, 0, 8, 8, 0, None, None]


def test_a_late_attach_counts_as_well(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries,
        # As finder.adapt_imported sets it.
        "from rlscope_phases import core; core.is_late = True", SINGLE,
        "class Own(Count):",
        "    def step(self, action): return super().step(action)",
        # Nobody resets it any more.
        "env = Wrapper(Own()); env.step(1); env.step(1)",
    )  # fmt: skip
    assert found == [1, 1]


def test_what_is_never_reset_counts_from_its_first_step(harness: Harness, libraries: Path) -> None:
    found = steps(
        harness, libraries, ARRAYS,
        "from rsl_rl.env.vec_env import VecEnv",
        "class Ants(VecEnv):",
        "    def step(self, actions): return {}, Flags(32), Flags(32), {}",
        "class Wrapped(VecEnv):",
        "    def __init__(self, env): self.env = env",
        "    def step(self, actions): return self.env.step(actions)",
        "env = Wrapped(Ants()); env.get_observations()",
        "env.step(0); env.step(0); env.env.step(0)",
    )  # fmt: skip
    assert found == [32, 32, 32]
