"""Replay and rollout buffers: their calls are the phase data."""

from rlscope_phases import core

WRITES = (
    "add", "append", "extend", "insert", "push", "put", "record", "remember", "store",
    "update_priorities",
)  # fmt: skip
# What follows is learning.
READS = (
    "sample", "_get_samples", "sample_batch", "get", "get_batch", "recall", "finish_path",
    "compute_advantages", "compute_gae", "compute_returns", "compute_returns_and_advantage",
    "compute_returns_and_advantages",
)  # fmt: skip


def hook(cls):
    """Put hooks on the methods above."""
    core.hook_own(cls, WRITES, core.SCOPE, core.DATA)
    core.hook_own(cls, READS, core.SAMPLE, core.DATA)


def adapt_sb3(module):
    """Take stable_baselines3.common.buffers."""
    core.follow_subclasses(module.BaseBuffer, hook, needs=("add", "sample"))


def adapt_replay_buffer(module):
    """Take a module that holds a class ReplayBuffer."""
    core.follow_subclasses(module.ReplayBuffer, hook, needs=("add", "sample"))
