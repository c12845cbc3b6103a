"""Stable-Baselines3: its algorithms say themselves when they act and when they train."""

from rlscope_phases import core, environments


def _hook(cls):
    core.hook_own(cls, ("predict", "_sample_action"), core.SCOPE, core.INFERENCE)
    core.hook_own(cls, ("train",), core.SCOPE, core.BACKPROPAGATION)
    core.hook_own(cls, ("learn",), core.FINISH)


def adapt(module):
    """Take stable_baselines3.common.base_class."""
    core.report_after(module.BaseAlgorithm, "__init__", environments.note_acting)
    core.follow_subclasses(module.BaseAlgorithm, _hook, needs=("learn", "predict"))
