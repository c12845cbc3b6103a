"""Forward passes, as the native half sees them: judged once, and the program's own come through."""

import pytest

import phases_harness
from phases_harness import Harness, Recording

START = """
from rlscope_phases import core, listener
import rlscope_phases
rlscope_phases.status = "waiting"
assert listener.is_on(), rlscope_phases.status
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


def test_a_thread_that_is_to_be_asked_does_not_speak_for_others(harness: Harness) -> None:
    run(
        harness,
        "import threading\n"
        "native.watch(lambda place, arguments: asked.append(threading.get_ident()) or 0, None)\n"
        "stepped, go_on = threading.Event(), threading.Event()\n"
        "def work(is_asked):\n"
        "    env.step(); stepped.set(); assert go_on.wait(30)\n"
        "    if is_asked: module(1); module(1)\n"
        "for is_asked in (True, False):\n"
        "    stepped.clear(); go_on.clear(); del asked[:]\n"
        "    thread = threading.Thread(target=work, args=(is_asked,))\n"
        "    thread.start(); assert stepped.wait(30)\n"
        "    assert module(1) == 1 and asked == []\n"
        "    go_on.set(); thread.join()\n"
        # One that asks nothing goes on being asked.
        "    assert asked == [thread.ident] * 2 * is_asked\n"
        "assert module(1) == 1 and len(asked) == 0\n"
        "env.step()\n"
        "assert module(1) == 1 and asked == [threading.get_ident()]\n",
    )


@pytest.mark.parametrize("kind", ["STEP", "RESET", "FINISH", "SCOPE", "SAMPLE", "LEARN", "FORWARD"])
def test_arguments_come_through_however_they_are_passed(harness: Harness, kind: str) -> None:
    run(
        harness,
        "import functools\n"
        "def plain(*args, **kwargs): return args, kwargs\n"
        "def strict(first, second=2, *, third=3): return first, second, third\n"
        f"hooks = [native.Hook(f, core.{kind}) for f in (plain, strict, divmod)]\n"
        "any_, some, builtin = hooks\n"
        "def judge(place, arguments):\n"
        "    asked.append(arguments)\n"
        "    return core.NONE\n"
        "native.watch(judge, None)\n"
        "class Owner: method = any_\n"
        "owner = Owner()\n"
        "for _ in range(2):\n"
        "    assert any_() == ((), {})\n"
        "    assert any_(1, *range(9), x=1, **{'y': 2}) == ((1, *range(9)), {'x': 1, 'y': 2})\n"
        "    assert any_(**{'x': 1}) == ((), {'x': 1})\n"
        "    assert owner.method() == ((owner,), {})\n"
        "    assert owner.method(1, x=2) == ((owner, 1), {'x': 2})\n"
        "    assert (lambda bound: bound(1))(owner.method) == ((owner, 1), {})\n"
        "    assert some(1) == (1, 2, 3) and some(third=7, first=1) == (1, 2, 7)\n"
        "    assert functools.partial(some, 1, third=0)(5) == (1, 5, 0)\n"
        "    assert list(map(some, 'ab', 'cd')) == [('a', 'c', 3), ('b', 'd', 3)]\n"
        "    assert builtin(7, 2) == (3, 1)\n"
        "    for wrong in ({'fourth': 4}, {}):\n"
        "        try: some(**wrong)\n"
        "        except TypeError as error: assert 'strict()' in str(error)\n"
        "        else: raise AssertionError(wrong)\n"
        # Once with nothing to be judged, once with: what tells nothing is judged again.
        "    judged = len(asked)\n"
        "    env.step()\n"
        f"if core.{kind} == core.FORWARD:\n"
        "    assert asked[:2] == [(), (1, *range(9))] and (owner, 1) in asked\n"
        "    assert len(asked) == judged == 14\n",
    )


# What follows is a part of the time that learning took, however busy the machine is; at least that.
UPDATE = """
from time import monotonic_ns
def busy(ns):
    until = monotonic_ns() + ns
    while monotonic_ns() < until: pass
share = None
while share is None or share > most:
    env.step()
    begun = monotonic_ns()
    native.learn(); busy(40_000_000); native.learned()
    learned = monotonic_ns()
    tail(learned - begun)
    stepped = monotonic_ns()
    env.step()
    share = (stepped - learned) / (learned - begun)
print(learned, stepped)
"""


@pytest.mark.parametrize(
    ("tail", "is_part"),
    [
        ("busy(took // 20)", True),
        ("busy(took)", False),
        # What was begun again had no step: it is what the tail is.
        ("(busy(took), native.enter(7, core.DATA, 0), native.leave(7), busy(took // 40))", False),
    ],
    ids=["as long as a target network takes", "much longer", "much longer, with a buffer in it"],
)
def test_learning_ends_with_its_last_step_unless_little_follows(
    harness: Harness, tail: str, *, is_part: bool
) -> None:
    most = 0.1 if is_part else "float('inf')"
    made = run(harness, f"tail = lambda took: {tail}\nmost = {most}\n{UPDATE}")
    learned_ns, stepped_ns = map(int, made.stdout.split())
    *_, learning = [one for one in made.ranges if one.name == "backpropagation"]
    if is_part:
        assert stepped_ns <= learning.end_ns
    else:
        assert learning.end_ns <= learned_ns
