"""PyTorch's compilers and hooks work as they do without phases."""

import json
import subprocess

import pytest

import phases_harness
from conftest import in_matrix
from phases_harness import RL_PYTHON, Harness
from rl_programs import require_modules


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    require_modules("torch, gymnasium")
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


START = """
import gymnasium, torch, warnings
from torch import nn
warnings.filterwarnings("error", message=".*global hooks.*")
torch.set_num_threads(1)
env = gymnasium.make("CartPole-v1")
net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters())
obs, _ = env.reset(seed=1)
def step(network):
    global obs
    action = int(network(torch.as_tensor(obs)[None]).argmax())
    obs, _, terminated, truncated, _ = env.step(action)
    if terminated or truncated:
        obs, _ = env.reset()
for _ in range(20):
    step(net)
hooks = torch.nn.modules.module
"""
COMPILED = """
compiled = torch.compile(net, backend="eager", fullgraph=True)
@torch.compile(backend="eager")
def update(batch):
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()
for _ in range(20):
    step(compiled)
    update(torch.zeros(8, 4))
# Forward passes are seen from outside again, and torch compares with a module's call of its own.
plain = torch.nn.Module.__call__.__wrapped__
assert type(plain) is type(step), plain
assert torch._dynamo.utils.unpatched_nn_module_call is plain
"""
TRACED = """
step(torch.jit.trace(net, torch.zeros(1, 4)))
step(torch.fx.symbolic_trace(net))
step(net)
exported = torch.export.export(net, (torch.zeros(1, 4),))
assert "rlscope" not in str(exported.graph)
"""
HOOKED = """
seen = []
handle = hooks.register_module_forward_pre_hook(lambda module, args: seen.append(module))
step(net)
handle.remove()
assert seen == [net, *net], seen
def fails(module, args):
    raise KeyError("the program's own")
handle = net.register_forward_pre_hook(fails)
for _ in range(3):
    try:
        step(net)
    except KeyError:
        pass
handle.remove()
step(net)
"""
THREADS = """
import threading
def act(count):
    own = gymnasium.make("CartPole-v1")
    obs, _ = own.reset(seed=1)
    for _ in range(count):
        action = int(net(torch.as_tensor(obs)[None]).argmax())
        obs, _, terminated, truncated, _ = own.step(action)
        if terminated or truncated:
            obs, _ = own.reset()
def learn(count):
    for _ in range(count):
        optimizer.zero_grad()
        net(torch.zeros(8, 4)).square().mean().backward()
        optimizer.step()
threads = [threading.Thread(target=act, args=(300,)) for _ in range(3)]
threads.append(threading.Thread(target=learn, args=(200,)))
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("rest", [HOOKED, *in_matrix(COMPILED, TRACED, THREADS)])
def test_programs_do_not_notice(harness: Harness, rest: str) -> None:
    program = harness.scratch / f"program-{len(rest)}.py"
    program.write_text(START + rest)
    made = harness.run(program, python=RL_PYTHON)
    made.check_nesting()
    assert "rlscope" not in made.stderr
    counts = made.counts()
    # At least: the reset and the steps before the part that is tried here.
    assert counts["simulation"] >= 21
    assert counts["inference"] >= 20


@pytest.mark.slow
def test_a_learner_thread_has_its_own_phase(harness: Harness) -> None:
    program = harness.scratch / "threads.py"
    program.write_text(START + THREADS)
    made = harness.run(program, python=RL_PYTHON)
    by_thread: dict[int, set[str]] = {}
    for one in made.ranges:
        by_thread.setdefault(one.tid, set()).add(one.name)
    learners = [names for names in by_thread.values() if "backpropagation" in names]
    assert learners == [{"backpropagation"}]
    assert len(by_thread) == 5


COMPILES = """
import json
from torch._dynamo.utils import counters
graphs, outputs, obs = [], [], torch.zeros(1, 4)
def backend(module, inputs):
    graphs.append(module.code)
    return module.forward
class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.body.register_forward_hook(lambda module, args, output: output * 2)
    def forward(self, value): return self.body(value).sum()
torch.manual_seed(0)
plain, hooked = nn.Linear(4, 2), Hooked()
compiled = [torch.compile(one, backend=backend, fullgraph=True) for one in (plain, hooked)]
optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
@torch.compile(backend=backend)
def update(batch):
    optimizer.zero_grad()
    loss = plain(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss
@torch.compile(backend=backend)
def broken(value):
    value = plain(value)
    print(end="")
    return hooked(value.repeat(1, 2))
for _ in range(3):
    for one in (*compiled, plain, broken):
        if with_environment: environment.step(0)
        with torch.no_grad(): outputs.append(one(obs).flatten().tolist())
    outputs.append(float(update(torch.ones(8, 4))))
graphs.append(str(torch.export.export(plain, (torch.zeros(3, 4),)).graph))
print(json.dumps([graphs, outputs, dict(counters["stats"]), len(counters["graph_break"])]))
"""


@pytest.mark.slow
def test_what_torch_compiles_is_the_same(harness: Harness) -> None:
    program = harness.scratch / "compiles.py"
    start = "import torch, gymnasium\nfrom torch import nn\ntorch.set_num_threads(1)\n"
    start += "environment = gymnasium.make('CartPole-v1'); environment.reset(seed=1)\n"
    program.write_text(start + "with_environment = True\n" + COMPILES)
    without = subprocess.run(
        [RL_PYTHON, program], capture_output=True, text=True, check=True, cwd=harness.scratch
    )
    made = harness.run(program, python=RL_PYTHON)
    made.check_nesting()
    assert made.stdout == without.stdout
    assert len(json.loads(made.stdout)[0]) > 4
    # What is compiled is seen from outside, and so is what is not; what is called inside a compiled
    # function is part of that.
    assert made.counts()["inference"] == 3 * 4


COMPILED_UPDATE = """
import time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()
def backend(module, inputs):
    # Compilers have workers, and wait for them.
    return pool.submit(lambda: module.forward).result()
def loss_of(batch):
    time.sleep(0.02)
    return net(batch).square().mean()
def update(batch):
    loss = loss_of(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
update = torch.compile(update, backend=backend)
def get_action(obs):
    return net(obs).argmax(1)
get_action = torch.compile(get_action, backend=backend)
for _ in range(10):
    for _ in range(4):
        with torch.no_grad():
            action = int(get_action(torch.as_tensor(obs)[None]))
        obs, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            obs, _ = env.reset()
    update(torch.zeros(8, 4))
"""


@pytest.mark.slow
def test_functions_that_are_compiled_act_and_learn(harness: Harness) -> None:
    program = harness.scratch / "compiled_update.py"
    program.write_text(START + COMPILED_UPDATE)
    made = harness.run(program, python=RL_PYTHON)
    made.check_nesting()
    counts = made.counts()
    assert counts["inference"] == 20 + 10 * 4
    assert counts["backpropagation"] == 10
    # To wait for its compiler is part of what is compiled, and the loss is part of an update. The
    # threads of the compiler are joined at the end.
    assert counts["wait"] == 1
    learned = [one.end_ns - one.start_ns for one in made.ranges if one.name == "backpropagation"]
    assert min(learned) >= 20_000_000
