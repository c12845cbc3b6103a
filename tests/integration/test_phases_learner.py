"""Learners that hold no environment: what opens backpropagation, and what closes it.

Each program times itself, and is held to it: what it calls exactly, the times within points of all.
"""

import json
from collections import Counter

import pytest

import phases_harness
from conftest import in_matrix
from phases_harness import RL_PYTHON, Harness, Range, Recording
from rl_programs import require_modules

pytestmark = pytest.mark.slow

START = """
import json, multiprocessing, queue, random, sys, threading, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0); torch.set_num_threads(1)
def make(inputs, outputs):
    network = nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, outputs))
    return network, torch.optim.Adam(network.parameters())
def learn(loss):
    optimizer.zero_grad(); loss.backward(); optimizer.step()
# What torch does once is in no phase.
network, optimizer = make(2, 2)
network(torch.zeros(1, 2)).sum().backward()
now = time.monotonic_ns
def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end: pass
times = {}
def add(name, start): times[name] = times.get(name, 0) + now() - start
"""
END = """
print(json.dumps(dict(start=begin, end=now(), times=times, thread=threading.get_native_id())))
"""
CLONING = """
network, optimizer = make(16, 4)
data = TensorDataset(torch.randn(47 * 32, 16), torch.randint(0, 4, (47 * 32,)))
begin = now()
for epoch in range(3):
    for seen, done in DataLoader(data, batch_size=32, shuffle=True):
        start = now()
        learn(nn.functional.cross_entropy(network(seen), done))
        add("backpropagation", start)
start = now()
with torch.no_grad():
    for seen, done in DataLoader(data, batch_size=64): network(seen)
busy(0.3)
"""
QUEUE = """
network, optimizer = make(16, 4)
batches = queue.Queue(maxsize=4)
def act():
    for _ in range(20):
        # As an environment elsewhere would have it wait: one that computes would fight for the GIL.
        time.sleep(0.002); batches.put(torch.randn(64, 16))
actors = [threading.Thread(target=act) for _ in range(3)]
begin = start = now()
for actor in actors: actor.start()
add("wait", start)
for update in range(60):
    start = now(); batch = batches.get(); add("wait", start)
    start = now()
    for _ in range(4): learn(network(batch).square().mean())
    add("backpropagation", start)
start = now()
for actor in actors: actor.join()
add("wait", start)
busy(0.3)
"""
PIPES = """
class Walk:
    def reset(self):
        self.steps = 0
        return [0.0] * 8
    def step(self, action):
        busy(0.001); self.steps += 1
        return [float(action)] * 8, 1.0, self.steps % 20 == 0, {}
def work(pipe):
    walk = Walk(); pipe.send(walk.reset())
    for action in iter(pipe.recv, None): pipe.send(walk.step(action)[0])
if __name__ == "__main__":
    network, optimizer = make(8, 2)
    context = multiprocessing.get_context("METHOD")
    ends = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=work, args=(end,)) for _, end in ends]
    for worker in workers: worker.start()
    pipes = [end for end, _ in ends]
    seen = torch.tensor([pipe.recv() for pipe in pipes])
    begin = now()
    for update in range(6):
        kept = []
        for step in range(20):
            start = now()
            with torch.no_grad():
                actions = torch.distributions.Categorical(logits=network(seen)).sample().tolist()
            add("inference", start); kept.append(seen); start = now()
            for pipe, action in zip(pipes, actions): pipe.send(action)
            seen = torch.tensor([pipe.recv() for pipe in pipes]); add("wait", start)
        start = now(); batch = torch.cat(kept)
        for _ in range(10): learn(network(batch).square().mean())
        add("backpropagation", start)
    for pipe in pipes: pipe.send(None)
    for worker in workers: worker.join()
    busy(0.3)
"""
POOL = """
from concurrent.futures import ThreadPoolExecutor
class Walk:
    def reset(self): return [0.0] * 8
    def step(self, action): time.sleep(0.001); return [float(action)] * 8, 1.0, False, {}
network, optimizer = make(8, 2)
walks = [Walk() for _ in range(4)]
seen = torch.tensor([walk.reset() for walk in walks])
begin = now()
with ThreadPoolExecutor(2) as pool:
    for update in range(8):
        kept = []
        for step in range(15):
            start = now()
            with torch.set_grad_enabled(GRAD):
                chosen = torch.distributions.Categorical(logits=network(seen))
                actions = chosen.sample()
            kept.append(chosen.log_prob(actions).sum() if GRAD else seen)
            steps = [pool.submit(one.step, action) for one, action in zip(walks, actions.tolist())]
            # Acting lasts to the wait.
            add("inference", start); start = now()
            after = [step.result()[0] for step in steps]; add("wait", start)
            seen = torch.tensor(after)
        start = now()
        if GRAD: learn(torch.stack(kept).sum())
        # As many as it acts on at once.
        else: [learn(network(some).square().mean()) for some in kept]
        add("backpropagation", start)
busy(0.3)
"""
ACTING = """
class Walk:
    def reset(self): self.steps = 0; return [0.0] * 16
    def step(self, action): busy(0.002); self.steps += 1; return [0.1] * 16, 1.0, False, {}
walk = Walk(); network, optimizer = make(16, 4); walk.reset()
"""
CLOSURE = (
    ACTING
    + """
begin = now()
def closure():
    start = now(); walk.step(0); add("simulation", start)
    loss = network(torch.randn(256, 16)).square().mean()
    busy(0.02); optimizer.zero_grad(); loss.backward()
    return loss
for update in range(40):
    start = now(); optimizer.step(closure); add("all", start)
times["backpropagation"] = times["all"] - times["simulation"]
"""
)
REPLAY = (
    """
class ReplayBuffer:
    def sample(self): return torch.randn(64, 16)
"""
    + ACTING
    + """
buffer = ReplayBuffer(); begin = now()
for update in range(60):
    with torch.no_grad(): network(torch.zeros(1, 16))
    start = now(); walk.step(0); add("simulation", start)
    batch = buffer.sample()
    start = now(); busy(0.015); learn(network(batch).square().mean()); add("backpropagation", start)
walk.step(0)
"""
)
LOGGED = """
network, optimizer = make(16, 4)
lines = queue.Queue()
begin = now()
for update in range(40):
    batch = torch.randn(64, 16)
    start = now(); learn(network(batch).square().mean())
    add("backpropagation", start)
    if update % 10 == 9: lines.put(update)
busy(0.3)
"""
ALONE = """
network, optimizer = make(16, 4)
begin = now()
for update in range(40):
    busy(0.004); batch = torch.randn(64, 16)
    start = now()
    for part in batch.chunk(2): network(part).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
    add("backpropagation", start)
busy(0.3)
"""
SEARCH = """
network, optimizer = make(9, 2)
begin = now()
for update in range(10):
    kept = []
    for move in range(20):
        busy(0.001); start = now()
        with torch.no_grad(): network(torch.randn(1, 9))
        add("inference", start); kept.append(torch.randn(9))
    start = now()
    for _ in range(10): learn(network(torch.stack(random.sample(kept, 8))).square().mean())
    add("backpropagation", start)
busy(0.3)
"""
# A text is written for each line of a batch, and learned from; another network is asked once.
WRITING = """
network, optimizer = make(9, 9)
other, _ = make(9, 9)
begin = now()
for update in range(10):
    seen = torch.randn(16, 9)
    for letter in range(12):
        busy(0.002); start = now()
        with torch.no_grad(): network(seen)
        add("inference", start)
    busy(0.02); start = now()
    with torch.no_grad(): wanted = other(seen)
    for epoch in range(20): learn((network(seen) - wanted).square().mean())
    add("backpropagation", start)
busy(0.3)
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    require_modules("torch")
    return phases_harness.make(tmp_path_factory.mktemp("phases"))


def run(harness: Harness, text: str) -> Recording:
    program = harness.scratch / f"learner_{len(list(harness.scratch.iterdir()))}.py"
    indent = "    " if "__main__" in text else ""
    program.write_text(START + text + END.strip().replace("print", f"{indent}print", 1) + "\n")
    made = harness.run(program, python=RL_PYTHON)
    made.check_nesting()
    assert "rlscope" not in made.stderr
    return made


def of_learner(made: Recording, points: dict[str, float]) -> list[Range]:
    """Return the learner's ranges; its phases are what its timers say, to some points of all."""
    truth = json.loads(made.stdout.splitlines()[-1])
    ranges = [one for one in made.ranges if one.tid == truth["thread"]]
    inside = phases_harness.phase_ns(ranges, truth["start"], truth["end"])
    off = {
        name: 100 * (inside[name] - truth["times"].get(name, 0)) / (truth["end"] - truth["start"])
        for name in points
    }
    assert all(abs(off[name]) <= points[name] for name in points), (off, truth, inside)
    return [one for one in ranges if one.start_ns >= truth["start"]]


def counts(ranges: list[Range]) -> Counter[str]:
    return Counter(one.name for one in ranges)


def test_a_loader_closes_each_update(harness: Harness) -> None:
    ranges = of_learner(run(harness, CLONING), {"backpropagation": 7})
    found = counts(ranges)
    assert found["backpropagation"] == 3 * 47
    # Each batch, and each end; each batch is looked at once more at the end.
    assert found["data"] == 3 * 48 + 25
    assert found["inference"] >= 23
    # Training ended: what follows is no part of it.
    last = max(one.end_ns for one in ranges if one.name == "backpropagation")
    assert last <= min(one.start_ns for one in ranges if one.name == "inference")


def test_waits_at_a_queue_are_no_part_of_an_update(harness: Harness) -> None:
    ranges = of_learner(run(harness, QUEUE), {"backpropagation": 7, "wait": 7})
    found = counts(ranges)
    # It waits for each thread to end, and for some to start.
    assert found["backpropagation"] == 60
    assert 63 <= found["wait"] <= 66


@pytest.mark.parametrize("method", ["spawn", *in_matrix("fork")])
def test_workers_behind_pipes(harness: Harness, method: str) -> None:
    made = run(harness, PIPES.replace("METHOD", method))
    ranges = of_learner(made, {"backpropagation": 7, "inference": 7, "wait": 7})
    found = counts(ranges)
    assert found["backpropagation"] == 6
    assert found["inference"] == 120
    workers = Counter(one.pid for one in made.ranges if one.name == "simulation")
    # A reset, and a step for each action.
    assert sorted(workers.values()) == [121, 121]


def test_acting_by_itself_is_the_forward_pass(harness: Harness) -> None:
    ranges = of_learner(run(harness, SEARCH), {"backpropagation": 7, "inference": 7})
    found = counts(ranges)
    assert found == {"inference": 200, "backpropagation": 10}


def test_a_model_that_writes_is_no_target_network(harness: Harness) -> None:
    """However many lines it writes at once; a network that is asked once in each update is one."""
    ranges = of_learner(run(harness, WRITING), {"backpropagation": 7, "inference": 7})
    # In the first update it is not known yet.
    assert counts(ranges) == {"inference": 121, "backpropagation": 10}


def test_an_optimizer_step_ends_an_update_where_nothing_else_does(harness: Harness) -> None:
    ranges = of_learner(run(harness, ALONE), {"backpropagation": 7})
    # The first began with what torch does once: no optimizer step ended that.
    assert counts(ranges) == {"backpropagation": 39}


@pytest.mark.parametrize("has_grad", [False, True], ids=["without gradients", "with gradients"])
def test_environments_stepped_by_threads_of_a_pool(harness: Harness, has_grad: bool) -> None:
    """The learner resets them itself; that the pool steps them it sees by its waits."""
    made = run(harness, POOL.replace("GRAD", str(has_grad)))
    found = counts(of_learner(made, {"backpropagation": 7, "inference": 7, "wait": 7}))
    assert (found["inference"], found["backpropagation"]) == (8 * 15, 8)


def test_who_hands_something_over_is_not_fed_by_it(harness: Harness) -> None:
    found = counts(of_learner(run(harness, LOGGED), {"backpropagation": 7}))
    # As above, the first began with what torch does once.
    assert found == {"backpropagation": 39, "wait": 4}


def test_what_a_closure_of_an_optimizer_does_is_told_apart(harness: Harness) -> None:
    """Lightning steps its environments in one."""
    made = run(harness, CLOSURE)
    found = counts(of_learner(made, {"backpropagation": 7, "simulation": 3}))
    assert (found["simulation"], found["backpropagation"]) == (40, 40)


def test_a_batch_is_made_ready_in_the_update(harness: Harness) -> None:
    """From where the buffer was read, once it is known that learning follows."""
    made = run(harness, REPLAY)
    found = counts(of_learner(made, {"backpropagation": 7, "simulation": 3}))
    assert (found["data"], found["backpropagation"], found["simulation"]) == (60, 60, 61)


def test_random_actions_are_no_inference(harness: Harness) -> None:
    require_modules("gymnasium")
    text = """
import gymnasium
environment = gymnasium.make("CartPole-v1"); environment.reset(seed=1)
begin = now()
for step in range(200):
    if any(environment.step(random.randrange(2))[2:4]): environment.reset()
environment.close()
"""
    assert set(counts(of_learner(run(harness, text), {}))) == {"simulation"}


def test_what_acts_before_anything_learns_is_seen(harness: Harness) -> None:
    """As in self-play, whose first games come before the first update."""
    program = harness.scratch / "self_play.py"
    program.write_text("""
import torch
from torch import nn
torch.set_num_threads(1)
network = nn.Sequential(nn.Linear(9, 64), nn.Tanh(), nn.Linear(64, 2))
with torch.no_grad(): network(torch.zeros(1, 9))
optimizer = torch.optim.Adam(network.parameters())
# To try it is no learning.
network(torch.zeros(1, 9))
def play():
    for _ in range(100):
        with torch.no_grad(): network(torch.zeros(1, 9))
for _ in range(3):
    play()
    for _ in range(10):
        loss = network(torch.zeros(32, 9)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
""")
    made = harness.run(program, python=RL_PYTHON)
    made.check_nesting()
    assert made.names().count("inference") == 3 * 100
