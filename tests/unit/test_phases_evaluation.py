"""Evaluation in loops of the program's own: whose steps are told from those of the training."""

import pytest

import phases_harness
from phases_harness import Harness

START = """
from rlscope_phases import core, listener
import rlscope_phases, types
rlscope_phases.status = "waiting"
assert listener.is_on(), rlscope_phases.status
from rlscope_phases import evaluation
class Env:
    def step(self): return (0, 0.0, False, {})
Env.step = core.native.Hook(Env.step, core.STEP, core.NONE, False, core.ONE_STEP)
class Module:
    training, parts = True, ()
    def modules(self): return (self, *self.parts)
    def train(self, mode=True):
        self.training = mode
        for part in self.parts: part.train(mode)
        return self
    def eval(self): return self.train(False)
evaluation.adapt(types.SimpleNamespace(__name__="torch", nn=types.SimpleNamespace(Module=Module)))
env, net, model = Env(), Module(), Module()
model.parts = (net,)
def steps(count):
    for _ in range(count): env.step()
def acts(module):
    evaluation.note_forward((module, 0)); evaluation.note_result(True)
def learns():
    core.native.learn()
    core.native.learned()
"""
ACTS_IN_TRAINING_MODE = """
acts(net)
for _ in range(3):
    steps(4); learns()
    model.eval(); steps(10); model.train()
    steps(4); learns()
"""
ALWAYS_ACTS_IN_EVALUATION_MODE = """
steps(5)
for _ in range(3):
    model.eval(); acts(net); steps(4)
    model.train(); learns()
"""
TARGETS = """
acts(net)
for _ in range(3):
    steps(4); learns()
    steps(1); Module().eval(); steps(3); learns()
"""
ASKED_IN_EVALUATION_MODE = """
acts(net)
for _ in range(3):
    for _ in range(4):
        model.eval(); acts(net); model.train(); steps(1)
    model.eval(); model.train(); learns()
model.eval(); learns(); steps(1)
"""
STAYS_IN_ITS_MODE = """
acts(net)
steps(4); learns()
steps(2); model.eval(); steps(10); learns()
steps(4); learns()
model.eval(); steps(3); learns()
"""
ACTS_IN_EVALUATION_MODE_AFTER_THE_FIRST_ROLLOUT = """
acts(net); steps(4)
for _ in range(3):
    model.train(); learns(); model.eval(); steps(4)
"""
IS_LET_GO = """
own = Module.train.__wrapped__
acts(net)
for _ in range(evaluation.MOST_TRAININGS):
    assert Module.train is not own
    model.train(False); steps(1); model.train(); learns()
assert Module.train is own
for _ in range(2):
    steps(1); model.eval(); steps(10); model.train()
    assert Module.train.__wrapped__ is own
    steps(4); learns()
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.mark.parametrize(
    ("program", "training", "evaluation"),
    [
        pytest.param(ACTS_IN_TRAINING_MODE, 24, 30, id="between eval() and train()"),
        pytest.param(ALWAYS_ACTS_IN_EVALUATION_MODE, 17, 0, id="always acts so"),
        pytest.param(TARGETS, 24, 0, id="models that never acted"),
        pytest.param(ASKED_IN_EVALUATION_MODE, 13, 0, id="is only asked in it"),
        pytest.param(ACTS_IN_EVALUATION_MODE_AFTER_THE_FIRST_ROLLOUT, 16, 0, id="once acted else"),
        pytest.param(IS_LET_GO, 74, 20, id="begins after many updates"),
        pytest.param(STAYS_IN_ITS_MODE, 13, 10, id="learning ends it"),
    ],
)
def test_steps_in_evaluation(
    harness: Harness, program: str, training: int, evaluation: int
) -> None:
    made = harness.script(START + program + "core.native.end()\n")
    made.check_nesting()
    taken = {"": 0, "Module.eval": 0}
    for each in made.ranges:
        if each.name == "simulation":
            taken[each.label] += each.steps or 0
    assert taken == {"": training, "Module.eval": evaluation}
    assert made.counts()["backpropagation"] > 0
    assert (made.counts()["evaluation"] > 0) == (evaluation > 0)
