"""A collector, a replay buffer and updates of TorchRL, on its own pendulum; it times itself.

Its last line: start_ns and end_ns of the training, and for simulation, data and backpropagation how
often, and how long in all (ns of CLOCK_MONOTONIC).
"""

import json
import sys
import time

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import PendulumEnv
from torchrl.envs.common import EnvBase

torch.set_num_threads(1)
torch.manual_seed(0)
counts: dict[str, int] = {}
spent_ns: dict[str, int] = {}


def add(key: str, start_ns: int) -> None:
    """Count one, which ends now."""
    counts[key] = counts.get(key, 0) + 1
    spent_ns[key] = spent_ns.get(key, 0) + time.monotonic_ns() - start_ns


def timed(owner: type, name: str, key: str) -> None:
    """Let a method time itself."""
    function = getattr(owner, name)

    def method(*args: object, **kwargs: object) -> object:
        start_ns = time.monotonic_ns()
        try:
            return function(*args, **kwargs)
        finally:
            add(key, start_ns)

    setattr(owner, name, method)


class Policy(nn.Module):
    """Says how to push, from the angle and its speed."""

    def __init__(self) -> None:
        """Two layers."""
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, angle: torch.Tensor, speed: torch.Tensor) -> torch.Tensor:
        """Return one number for each."""
        return self.inner(torch.stack((angle, speed), -1)).tanh()


timed(EnvBase, "step_and_maybe_reset", "simulation")
timed(ReplayBuffer, "sample", "data")
timed(ReplayBuffer, "extend", "data")
policy = Policy()
collector = Collector(
    PendulumEnv(), TensorDictModule(policy, in_keys=["th", "thdot"], out_keys=["action"]),
    frames_per_batch=64, total_frames=1920,
)  # fmt: skip
buffer = ReplayBuffer(storage=LazyTensorStorage(2000), batch_size=64)
optimizer = torch.optim.Adam(policy.parameters())
begin_ns = time.monotonic_ns()
for batch in collector:
    buffer.extend(batch.reshape(-1))
    for _ in range(4):
        sample = buffer.sample()
        start_ns = time.monotonic_ns()
        pushed = policy(sample["th"], sample["thdot"]).squeeze(-1)
        loss = (pushed - sample["next", "th"]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        add("backpropagation", start_ns)
reported = {"start_ns": begin_ns, "end_ns": time.monotonic_ns(), "counts": counts, "ns": spent_ns}
sys.stdout.write(json.dumps(reported) + "\n")
