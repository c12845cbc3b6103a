"""Calls into environments become `simulation`, and the program does not notice."""

from pathlib import Path

import pytest

import phases_harness
from native_programs import python_of
from phases_harness import Harness, Recording

# As much of gymnasium as there is to hook: the same names in the same module.
GYMNASIUM = '''
class Env:
    def reset(self, seed=None):
        raise NotImplementedError
    def step(self, action):
        """Take a step."""
        raise NotImplementedError
    def close(self):
        pass
class Wrapper(Env):
    def __init__(self, env):
        self.env = env
    def reset(self, seed=None):
        return self.env.reset(seed)
    def step(self, action):
        return self.env.step(action)
    def close(self):
        self.env.close()
'''
PROGRAM = '''
from gymnasium.core import Env, Wrapper

class Count(Env):
    """An environment of the program's own."""
    def reset(self, seed=None):
        """Begin."""
        self.count = 0
        return self.count, {}
    def step(self, action: int, *, scale: int = 1):
        """Count."""
        if action < 0:
            raise ValueError("negative action")
        self.count += action * scale
        return self.count, 0.0, False, False, {}
class TimeLimit(Wrapper):
    def step(self, action):
        return self.env.step(action)
class Vector:
    pass
'''


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


@pytest.fixture(scope="module")
def gymnasium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    package = folder / "gymnasium"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text(GYMNASIUM)
    return folder


def run(harness: Harness, gymnasium: Path, text: str) -> Recording:
    return harness.script(PROGRAM + text, gymnasium)


def simulations(made: Recording) -> int:
    made.check_nesting()
    return made.counts()["simulation"]


def test_each_call_from_outside_is_one_simulation(harness: Harness, gymnasium: Path) -> None:
    made = run(
        harness,
        gymnasium,
        "env = TimeLimit(Wrapper(Count()))\n"
        "env.reset()\n"
        "for action in range(10):\n"
        "    result = env.step(action)\n"
        "assert result[0] == 45, result\n",
    )
    assert simulations(made) == 11


def test_a_wrapper_around_what_was_outermost_counts_once(harness: Harness, gymnasium: Path) -> None:
    made = run(
        harness,
        gymnasium,
        "inner = TimeLimit(Count())\n"
        "inner.reset(); inner.step(1)\n"
        "outer = Wrapper(inner)\n"
        "outer.reset(); outer.step(1)\n"
        "inner.step(1)\n",
    )
    assert simulations(made) == 5


def test_nothing_before_the_first_reset(harness: Harness, gymnasium: Path) -> None:
    made = run(harness, gymnasium, "env = TimeLimit(Count())\nenv.close()\n")
    assert made.ranges == []


def test_closing_ends_what_is_open(harness: Harness, gymnasium: Path) -> None:
    made = run(
        harness,
        gymnasium,
        "import time\n"
        "env = Count(); env.reset(); env.step(1); env.close()\n"
        "print(time.monotonic_ns())\n",
    )
    assert made.names() == ["simulation", "simulation"]
    assert max(one.end_ns for one in made.ranges) <= int(made.stdout)


@pytest.mark.parametrize("is_closed", [True, False])
def test_shutting_down_is_part_of_no_phase(
    harness: Harness, gymnasium: Path, is_closed: bool
) -> None:
    made = run(
        harness,
        gymnasium,
        "import atexit, time\n"
        "from rlscope_phases import core\n"
        "def shut_down(*workers): print(time.monotonic_ns())\n"
        "class Workers(Count):\n"
        "    close = shut_down\n"
        "env = TimeLimit(Workers())\n"
        f"if not {is_closed}: atexit.register(shut_down)\n"
        "env.reset(); env.step(1); core.native.learn()\n"
        f"if {is_closed}: env.close(); assert core.native.phase() == core.NONE\n",
    )
    made.check_nesting()
    (learning,) = (one for one in made.ranges if one.name == "backpropagation")
    assert learning.end_ns <= int(made.stdout)


def test_exceptions_pass_and_end_the_range(harness: Harness, gymnasium: Path) -> None:
    made = run(
        harness,
        gymnasium,
        "import traceback\n"
        "env = TimeLimit(Count()); env.reset()\n"
        "for _ in range(3):\n"
        "    try:\n"
        "        env.step(-1)\n"
        "    except ValueError:\n"
        "        print(traceback.format_exc())\n"
        "env.step(1)\n",
    )
    assert simulations(made) == 5
    assert made.stdout.count("ValueError: negative action") == 3
    assert "rlscope" not in made.stdout


def test_functions_answer_for_themselves(harness: Harness, gymnasium: Path) -> None:
    made = run(
        harness,
        gymnasium,
        "import inspect, types, weakref, copy\n"
        "env = Count(); env.reset()\n"
        "assert type(Count.__dict__['step']).__module__ == 'rlscope_phases._nvtx'\n"
        "for step in (Count.step, env.step):\n"
        "    assert step.__name__ == 'step' and step.__qualname__ == 'Count.step'\n"
        "    assert step.__module__ == '__main__' and step.__doc__ == 'Count.'\n"
        "    assert 'scale' in inspect.signature(step).parameters\n"
        "    assert 'self.count += action' in inspect.getsource(step)\n"
        "assert str(inspect.signature(env.step)) == '(action: int, *, scale: int = 1)'\n"
        "assert inspect.isfunction(Count.step) and inspect.ismethod(env.step)\n"
        "assert repr(Count.step).startswith('<function Count.step at ')\n"
        "assert Count.step.__annotations__ == {'action': int, 'scale': int}\n"
        "assert weakref.WeakMethod(env.step)()(1, scale=3)[0] == 3\n"
        "assert copy.deepcopy(Count.step) is Count.step\n"
        "assert isinstance(env, Env) and issubclass(TimeLimit, Wrapper)\n"
        "assert Count.step.__get__(env)(1)[0] == 4\n"
        "class Sub(Count):\n"
        "    def step(self, action):\n"
        "        return super().step(action + 1)\n"
        "sub = Sub(); sub.reset(); assert sub.step(1)[0] == 2\n"
        "Count.step.note = 5; assert Count.step.__wrapped__.note == 5\n",
    )
    made.check_nesting()


def test_environments_go_to_spawned_workers(harness: Harness, gymnasium: Path) -> None:
    made = run(
        harness,
        gymnasium,
        "import multiprocessing, pickle, os\n"
        "def work(env, queue):\n"
        "    for _ in range(5):\n"
        "        env.step(1)\n"
        "    env.reset()\n"
        "    for _ in range(5):\n"
        "        env.step(1)\n"
        "    queue.put((os.getpid(), env.count))\n"
        "if __name__ == '__main__':\n"
        "    env = TimeLimit(Count()).env; env.reset(); env.step(1)\n"
        "    assert pickle.loads(pickle.dumps(env.step))(1)[0] == 2\n"
        "    assert pickle.loads(pickle.dumps(Count.step)) is Count.step\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=work, args=(env, queue))\n"
        "    process.start(); pid, count = queue.get(); process.join()\n"
        "    assert count == 5; print(pid)\n",
    )
    # The worker's environment was reset before it was sent: it is known from its own reset on.
    assert made.counts(int(made.stdout)) == {"simulation": 6}


def test_cloudpickled_classes_need_nothing_of_ours(harness: Harness, gymnasium: Path) -> None:
    pytest.importorskip("cloudpickle")
    made = run(
        harness,
        gymnasium,
        "import cloudpickle, os, subprocess, sys\n"
        "env = Count(); env.reset(); env.step(1)\n"
        "blob = cloudpickle.dumps(env)\n"
        "assert b'rlscope' not in blob\n"
        "text = 'import pickle, sys; env = pickle.load(sys.stdin.buffer); print(env.step(2)[0])'\n"
        "environment = {'PYTHONPATH': os.path.dirname(os.path.dirname(sys.modules['gymnasium']."
        "__file__))}\n"
        "subprocess.run([sys.executable, '-c', text], input=blob, env=environment, check=True)\n",
    )
    assert made.stdout == "3\n"


def test_forked_workers_and_threads_have_phases_of_their_own(
    harness: Harness, gymnasium: Path
) -> None:
    made = run(
        harness,
        gymnasium,
        "import os, threading\n"
        "env = TimeLimit(Count()); env.reset()\n"
        "class Forking(Count):\n"
        "    def step(self, action):\n"
        "        self.child = os.fork()\n"
        "        return super().step(action)\n"
        "forking = Forking(); forking.reset(); forking.step(1)\n"
        "if forking.child == 0:\n"
        "    for _ in range(7): env.step(1)\n"
        "    os._exit(0)\n"
        "os.waitpid(forking.child, 0)\n"
        "def work():\n"
        "    own = Count(); own.reset()\n"
        "    for _ in range(99): own.step(1)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        # join() returns while a thread is still on its way out, where its last phase ends.
        "while len(os.listdir('/proc/self/task')) > 1: os.sched_yield()\n"
        "print(os.getpid(), forking.child)\n",
    )
    parent, child = map(int, made.stdout.split())
    made.check_nesting()
    # reset of two environments and one step, then four threads of a reset and 99 steps each.
    assert made.counts(parent)["simulation"] == 3 + 400
    assert made.counts(child) == {"simulation": 7}


def test_late_installation_hooks_what_is_there(harness: Harness, gymnasium: Path) -> None:
    program = harness.scratch / "late.py"
    program.write_text(
        PROGRAM + "import sys\n"
        "env = TimeLimit(Count()); env.reset(); env.step(1)\n"
        f"sys.path.insert(0, {str(harness.folder)!r})\n"
        "from rlscope_phases import starting\n"
        "assert starting.install() == 'on', starting.rlscope_phases.status\n"
        "for _ in range(9): env.step(1)\n"
    )
    environment_off = "import os, runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
    made = harness.run("-S", "-c", environment_off, program, paths=(gymnasium,))
    made.check_nesting()
    assert made.counts()["simulation"] == 9


@pytest.mark.parametrize("minor", range(8, 16))
def test_one_module_serves_every_python(harness: Harness, gymnasium: Path, minor: int) -> None:
    python = python_of(f"3.{minor}")
    program = harness.scratch / f"python_{minor}.py"
    program.write_text(
        PROGRAM + "import gc, sys\n"
        "def play():\n"
        "    class Own(Count):\n"
        "        def step(self, action): return super().step(action)\n"
        "    env = TimeLimit(Own()); env.reset()\n"
        "    for _ in range(10): assert len(env.step(1)) == 5\n"
        "for _ in range(50): play()\n"
        "del play; gc.collect()\n"
        "import rlscope_phases; print(rlscope_phases.status)\n"
    )
    made = harness.run(program, python=python, paths=(gymnasium,))
    assert made.stdout == "on\n"
    assert simulations(made) == 550


# Derived from nothing: a library's own.
WRAPPING = """
class Base:
    def __init__(self, env):
        self.env = env
    def reset(self):
        return self.env.reset()
    def step(self, action):
        self.env.step(action)
        return self.env.step(action)
class Tensors(Base):
    def reset(self):
        return super().reset()
class Outer(Base):
    pass
class Runner(Base):
    def step(self, rate):
        for _ in range(2):
            self.env.step(1)
        native.learn(); native.learned()
        return 0, 0, 0
class Collector(Base):
    def step(self):
        return self.env.step(1)
class Network(Base):
    def forward(self, value):
        return value
"""


@pytest.mark.parametrize(
    ("made_of", "steps"),
    [
        # It steps twice in one call of the program's.
        ("Tensors(Count())", [1, 1, 1]),
        ("Outer(Tensors(TimeLimit(Count())))", [1, 1, 1]),
        # What learns, takes no action or is a model is no environment.
        ("Runner(Count())", [2, 1, 1, 1, 1]),
        ("Network(Count())", [1] * 6),
    ],
)
def test_the_wrapper_of_a_library_is_the_environment(
    harness: Harness, gymnasium: Path, made_of: str, steps: list[int]
) -> None:
    # Not one of the program's own modules, which are looked through by themselves.
    library = gymnasium / "site-packages" / "wrapping.py"
    library.parent.mkdir(exist_ok=True)
    library.write_text("from rlscope_phases import core\nnative = core.native\n" + WRAPPING)
    made = harness.script(
        PROGRAM
        + "from rlscope_phases import listener\nassert listener.is_on()\n"
        + "from wrapping import *\n"
        + f"env = {made_of}\nenv.reset()\nfor _ in range(3): env.step(1)\n",
        gymnasium,
        library.parent,
    )
    assert made.stderr == ""
    assert [one.steps for one in made.ranges if one.name == "simulation"] == [0, *steps]


def test_a_step_that_takes_no_action_is_none(harness: Harness, gymnasium: Path) -> None:
    library = gymnasium / "site-packages" / "wrapping.py"
    library.parent.mkdir(exist_ok=True)
    library.write_text("native = None\n" + WRAPPING)
    made = harness.script(
        PROGRAM
        + "from wrapping import Collector\n"
        + "env = Collector(Count()); env.reset(); env.step(); env.env.step(1)\n",
        gymnasium,
        library.parent,
    )
    assert made.stderr == ""
    assert simulations(made) == 3
