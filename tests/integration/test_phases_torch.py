"""PyTorch's compilers and hooks work as they do without phases."""

import pytest

import phases_harness
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
plain = torch.nn.Module.__call__
assert type(plain) is type(step), plain
# What torch compares a module's call with, kept from before.
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
@pytest.mark.parametrize("rest", [COMPILED, TRACED, HOOKED, THREADS])
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
