"""Two ranks of DistributedDataParallel over gloo on a CPU; the second computes before its backward.

usage: ddp.py FOLDER [--updates 40] [--slow-ms 30]. In FOLDER/RANK: pid, and over all updates but
the first the wall time of backward (`backward`, ns), and the part without a CPU (`waited`).
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank: int, asked: argparse.Namespace) -> None:
    """Train; the model is the same on both ranks."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{asked.folder}/meet", rank=rank, world_size=2
    )
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    wall_ns = waited_ns = 0
    for update in range(asked.updates):
        loss = model(torch.randn(256, 256)).square().mean()
        if rank == 1:
            end = time.perf_counter() + asked.slow_ms / 1000
            while time.perf_counter() < end:
                pass
        start, cpu = time.monotonic_ns(), time.thread_time_ns()
        loss.backward()
        if update:
            spent = time.monotonic_ns() - start
            wall_ns += spent
            waited_ns += spent - (time.thread_time_ns() - cpu)
        optimizer.step()
        optimizer.zero_grad()
    reported = {"pid": os.getpid(), "backward": wall_ns, "waited": waited_ns}
    (asked.folder / str(rank)).write_text(json.dumps(reported))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--updates", type=int, default=40)
    arguments.add_argument("--slow-ms", type=float, default=30)
    torch.multiprocessing.spawn(work, (arguments.parse_args(),), nprocs=2)
