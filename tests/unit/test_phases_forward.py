"""Forward passes, as the native half sees them: judged once, and the program's own come through."""

import pytest

import phases_harness
from phases_harness import Harness, Recording

START = """
from rlscope_phases import core
import rlscope_phases
rlscope_phases.status = "waiting"
assert core.is_on(), rlscope_phases.status
native = core.native
class Env:
    def step(self): pass
Env.step = native.Hook(Env.step, core.STEP)
class Module:
    def __call__(self, value):
        return value() if callable(value) else value
Module.__call__ = native.Hook(Module.__call__, core.FORWARD)
env, module, asked = Env(), Module(), []
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def run(harness: Harness, text: str) -> Recording:
    made = harness.script(START + text)
    made.check_nesting()
    return made


def test_a_place_is_asked_about_until_it_is_settled(harness: Harness) -> None:
    made = run(
        harness,
        "def judge(place, arguments):\n"
        "    asked.append(place)\n"
        "    assert arguments == (module, 7)\n"
        "    native.suppose(core.INFERENCE)\n"
        "    return core.NONE\n"
        "def resolve(phase):\n"
        "    assert phase == core.SIMULATION\n"
        "    native.settle(asked[-1], core.INFERENCE)\n"
        "native.watch(judge, resolve)\n"
        "for _ in range(5):\n"
        "    env.step()\n"
        "    assert module(7) == 7\n"
        "env.step()\n"
        "assert len(asked) == 1\n"
        "module(7)\n"
        "assert len(set(asked)) == 2\n",
    )
    assert made.counts() == {"simulation": 6, "inference": 6}


def test_modules_in_a_forward_pass_are_not_asked_about(harness: Harness) -> None:
    run(
        harness,
        "native.watch(lambda place, arguments: asked.append(place) or core.NONE, None)\n"
        "env.step()\n"
        "assert module(lambda: module(lambda: module(3))) == 3\n"
        "assert len(asked) == 1\n"
        "module(3)\n"
        "assert len(asked) == 2\n",
    )


def test_data_follows_the_pass_that_ends_a_rollout(harness: Harness) -> None:
    made = run(
        harness,
        "native.watch(lambda place, arguments: core.DATA, None)\n"
        "env.step()\n"
        "assert module(native.phase) == core.INFERENCE\n"
        "assert native.phase() == core.DATA\n"
        "native.end()\n",
    )
    assert made.names() == ["simulation", "inference", "data"]


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit"])
def test_what_a_signal_handler_raises_is_the_programs(harness: Harness, error: str) -> None:
    run(
        harness,
        "def judge(place, arguments):\n"
        f"    raise {error}\n"
        "native.watch(judge, None)\n"
        "env.step()\n"
        "try:\n"
        "    module(1)\n"
        f"except {error}:\n"
        "    asked.append('raised')\n"
        "assert asked == ['raised']\n"
        "assert module(1) == 1\n",
    )


def test_an_error_of_ours_stays_ours(harness: Harness) -> None:
    run(
        harness,
        "def judge(place, arguments):\n"
        "    asked.append(place)\n"
        "    raise ValueError\n"
        "native.watch(judge, None)\n"
        "for _ in range(3):\n"
        "    env.step()\n"
        "    assert module(1) == 1\n"
        "assert len(asked) == 1\n",
    )


def test_there_is_an_end_to_places(harness: Harness) -> None:
    run(
        harness,
        "native.watch(lambda place, arguments: asked.append(place) or core.NONE, None)\n"
        "for place in range(1, 1024): native.settle(8 * place, core.INFERENCE)\n"
        "env.step(); module(1)\n"
        "assert len(asked) == 1\n"
        "native.settle(8 * 1024, core.INFERENCE)\n"
        "env.step(); module(1)\n"
        "assert len(asked) == 1\n"
        "native.settle(asked[0], core.INFERENCE)\n"
        "env.step(); module(1)\n"
        "assert native.phase() == core.NONE\n",
    )
