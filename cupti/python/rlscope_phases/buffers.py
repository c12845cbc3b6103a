"""Replay and rollout buffers: their calls are the phase data."""

from rlscope_phases import core

WRITES = (
    "add", "add_samples", "add_transition", "add_transitions", "append", "extend", "insert",
    "push", "put", "record", "remember", "store", "update_priorities",
)  # fmt: skip
# What follows is learning.
READS = (
    "sample", "_get_samples", "sample_all", "sample_batch", "sample_by_index", "get", "get_batch",
    "recall", "finish_path", "compute_advantages", "compute_gae", "compute_returns",
    "compute_returns_and_advantage", "compute_returns_and_advantages",
)  # fmt: skip


def hook(cls):
    """Put hooks on the methods above."""
    core.hook_own(cls, WRITES, core.SCOPE, core.DATA)
    core.hook_own(cls, READS, core.SAMPLE, core.DATA)


def adapt_sb3(module):
    """Take stable_baselines3.common.buffers."""
    core.follow_subclasses(module.BaseBuffer, hook, needs=("add", "sample"))


def adapt_d3rlpy(module):
    """Take d3rlpy.dataset.replay_buffer, where training online adds to one."""
    core.follow_subclasses(module.ReplayBufferBase, _hook_writes, needs=("append",))


def _hook_writes(cls):
    core.hook_own(cls, WRITES, core.SCOPE, core.DATA)


def adapt_pfrl(module):
    """Take pfrl.replay_buffer."""
    core.follow_subclasses(module.AbstractReplayBuffer, hook, needs=("append", "sample"))


def adapt_rsl_rl(module):
    """Take rsl_rl.storage.rollout_storage."""
    core.follow_subclasses(module.RolloutStorage, hook)


def adapt_skrl(module):
    """Take skrl.memories.torch.base."""
    core.follow_subclasses(module.Memory, hook, needs=("add_samples", "sample"))


def adapt_replay_buffer(module):
    """Take a module that holds a class ReplayBuffer."""
    core.follow_subclasses(module.ReplayBuffer, hook, needs=("add", "sample"))
