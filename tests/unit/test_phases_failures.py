"""Adapters that fail: counted in the target, which does not notice, and told."""

import json
from pathlib import Path

import pytest

import phases_harness
from fake_libraries import RENAMED_CLASS, RENAMED_METHOD, WHOLE, make_gymnasium
from phases_harness import Harness

PRINT = "from rlscope_phases import failures\nimport json\nprint(json.dumps(failures.counts))\n"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def failures_of(harness: Harness, text: str, *paths: Path) -> dict[str, int]:
    """Run a program and return the failures that it counted, by what is told of them."""
    made = harness.script(text + PRINT, *paths)
    made.check_nesting()
    assert made.stderr == ""
    found = json.loads(made.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("core", "message"),
    [(RENAMED_METHOD, "'Env' has no attribute 'reset'"), (RENAMED_CLASS, "no attribute 'Env'")],
)
def test_what_a_library_lacks_is_told(
    harness: Harness, tmp_path: Path, core: str, message: str
) -> None:
    library = make_gymnasium(tmp_path, core)
    ((text, count),) = failures_of(harness, "import gymnasium.core\n", library).items()
    prefix, adapter, error, reported = text.split("\t")
    assert (prefix, adapter, error) == ("adapter failed", "gymnasium.core", "AttributeError")
    assert message in reported
    assert "circular import" not in reported
    assert count == 1


def test_nothing_is_told_of_a_library_as_we_know_it(harness: Harness, tmp_path: Path) -> None:
    library = make_gymnasium(tmp_path, WHOLE)
    assert failures_of(harness, "import gymnasium.core\n", library) == {}


def test_each_class_that_cannot_be_hooked_counts(harness: Harness, tmp_path: Path) -> None:
    library = make_gymnasium(tmp_path, WHOLE)
    program = """
from gymnasium.core import Env
class Fixed(type):
    def __setattr__(cls, name, value):
        raise TypeError(name + " is fixed\\nsecond line")
for _ in range(3):
    class Own(Env, metaclass=Fixed):
        def reset(self): pass
"""
    reported = "\t".join(("adapter failed", "gymnasium.core", "TypeError", "reset is fixed"))
    assert failures_of(harness, program, library) == {reported: 3}


def test_environments_without_a_step_to_hook_are_told_of(harness: Harness, tmp_path: Path) -> None:
    library = make_gymnasium(tmp_path, WHOLE)
    program = """
from functools import partial
from gymnasium.core import Env
class Own(Env):
    step = partial(print)
    def reset(self): return 1
env = Own()
assert env.reset() == 1 and env.reset() == 1
"""
    reported = "\t".join(
        ("adapter failed", "environments", "TypeError", "__main__.Own.step is no plain function")
    )
    assert failures_of(harness, program, library) == {reported: 1}


HOOKED = """
from rlscope_phases import core, listener
import rlscope_phases
rlscope_phases.status = "waiting"
assert listener.is_on(), rlscope_phases.status
class Env:
    def step(self): pass
Env.step = core.native.Hook(Env.step, core.STEP)
class Module:
    def __call__(self): return 5
Module.__call__ = core.native.Hook(Module.__call__, core.FORWARD)
env, module = Env(), Module()
"""


@pytest.mark.parametrize("function", ["judge", "resolve"])
def test_what_fails_at_a_boundary_is_told(harness: Harness, function: str) -> None:
    judge = "raise ValueError('judge')" if function == "judge" else "core.native.suppose(2)"
    program = (
        HOOKED
        + f"def judge(place, arguments):\n    {judge}\n    return core.NONE\n"
        + "def resolve(phase): raise ValueError('resolve')\n"
        + "core.native.watch(judge, resolve)\n"
        + "for _ in range(3):\n    env.step()\n    assert module() == 5\n"
        + "try: {}['programs own']\nexcept KeyError: env.step()\n"
    )
    # What judges is not asked again after it failed.
    count = 1 if function == "judge" else 3
    reported = "\t".join(("adapter failed", "torch", "ValueError", function))
    assert failures_of(harness, program) == {reported: count}


def test_there_is_an_end_to_what_is_told(harness: Harness) -> None:
    program = """
from rlscope_phases import core, failures
class Silent(Exception):
    def __str__(self): raise RuntimeError
failures.note("silent", Silent())
failures.note("long\\tname", ValueError("x" * 9000 + "\\n" + "y"))
failures.note("odd", ValueError("tab\\tnul\\0half\\ud800pair"))
for number in range(100): failures.note("many", ValueError(str(number)))
"""
    counts = failures_of(harness, program)
    assert len(counts) == 33
    assert counts.pop("adapter failed\tothers\t\t") == 100 - (32 - 3)
    assert set(counts.values()) == {1}
    assert "adapter failed\tsilent\tSilent\t" in counts
    assert f"adapter failed\tlong?name\tValueError\t{'x' * 160}..." in counts
    assert "adapter failed\todd\tValueError\ttab?nul?half?pair" in counts


def test_a_loader_of_its_own_kind_is_told_of(harness: Harness, tmp_path: Path) -> None:
    library = make_gymnasium(tmp_path, WHOLE)
    program = """
import importlib.machinery, sys
class Loader(importlib.machinery.SourceFileLoader):
    __slots__ = ()
    def __setattr__(self, name, value):
        if name == "exec_module": raise AttributeError(name)
        super().__setattr__(name, value)
class Finder:
    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if name == "gymnasium.core": spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec
sys.meta_path.insert(1, Finder())
import gymnasium.core
assert gymnasium.core.Env
"""
    reported = "\t".join(
        ("adapter failed", "gymnasium.core", "TypeError", "Loader runs modules in its own way")
    )
    assert failures_of(harness, program, library) == {reported: 1}


TORCH = """
import sys, types
def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(members)
    return made
class Module:
    def __call__(self): pass
    def train(self, mode=True): pass
    def eval(self): pass
class Optimizer:
    def _patch_step_function(self): pass
Optimizer.__module__ = "optimizers"
optimizers = module(
    "optimizers", Optimizer=Optimizer, _global_optimizer_pre_hooks={},
    _global_optimizer_post_hooks={},
)
torch = module(
    "torch", nn=types.SimpleNamespace(Module=Module), autograd=module("torch.autograd"),
    optim=types.SimpleNamespace(Optimizer=Optimizer), is_grad_enabled=lambda: True, _C=None,
)
torch.autograd.backward = lambda: None
CHANGE
import rlscope_phases.finder
rlscope_phases.finder.adapt("torch", torch)
from rlscope_phases import core, listener
assert (type(Module.__call__) is core.native.Hook) == IS_WATCHED
"""


@pytest.mark.parametrize(
    ("change", "is_watched", "error"),
    [
        ("", True, None),
        ("del torch.autograd.backward", True, "AttributeError"),
        ("Module.__call__ = print", False, "TypeError"),
        ("del optimizers._global_optimizer_pre_hooks", True, "AttributeError"),
        ("del Optimizer._patch_step_function", True, "AttributeError"),
    ],
)
def test_what_of_torch_is_as_we_know_it_is_taken(
    harness: Harness, change: str, is_watched: bool, error: str | None
) -> None:
    program = TORCH.replace("CHANGE", change).replace("IS_WATCHED", str(is_watched))
    counts = failures_of(harness, program)
    assert [text.split("\t")[1:3] for text in counts] == ([["torch", error]] if error else [])
