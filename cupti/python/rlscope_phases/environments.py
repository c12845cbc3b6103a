"""Environments: the calls into the outermost one are the simulation.

Environments are wrapped, and vectors of them hold others; hooking each layer would cost at each
layer. So only reset() is hooked everywhere, which is called rarely, and the type of the object on
which it was called from outside gets its step() hooked.
"""

import sys

from rlscope_phases import core

STEPS = ("step", "step_async", "step_wait", "reset_async", "reset_wait", "send", "recv", "last")
adopted = set()


class Probe:
    """Has a method, to take the type of bound methods from."""

    def method(self):
        """Do nothing."""


def adopt(environment):
    """Put hooks on the type of an environment that the program calls itself."""
    cls = type(environment)
    adopted.add(cls)
    for name in STEPS:
        function = next(
            (base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None
        )
        if type(function) is core.Function:
            setattr(cls, name, core.native.Hook(function, core.STEP))
    _settle_default_gap()
    from rlscope_phases import guesses

    guesses.look()


def _settle_default_gap():
    """Take what lies between two steps for acting, unless forward passes will tell."""
    process = sys.modules.get("multiprocessing.process")
    is_worker = process is not None and process.parent_process() is not None
    forward = sys.modules.get("rlscope_phases.torch_hooks")
    is_told = forward is not None and (forward.has_seen_forward() or not _uses_others())
    core.native.default_gap(core.NONE if is_worker or is_told else core.INFERENCE)


def _uses_others():
    return "jax" in sys.modules or "tensorflow" in sys.modules


def _hook(cls):
    core.hook_own(cls, ("reset",), core.RESET)
    core.hook_own(cls, ("close",), core.FINISH)
    if core.is_late:
        core.hook_own(cls, STEPS, core.STEP)


def _hook_all(cls):
    """Put hooks on a class whose objects are never part of another environment."""
    core.hook_own(cls, ("reset", "async_reset"), core.RESET)
    core.hook_own(cls, ("step_and_maybe_reset", *STEPS), core.STEP)
    core.hook_own(cls, ("close",), core.FINISH)


def adapt_env(module):
    """Take gymnasium.core, gym.core or brax.envs.base."""
    core.follow_subclasses(module.Env, _hook)


def adapt_vector_env(module):
    """Take gymnasium.vector.vector_env; in older versions a VectorEnv is an Env."""
    if not hasattr(sys.modules.get(module.VectorEnv.__mro__[1].__module__), "Env"):
        core.follow_subclasses(module.VectorEnv, _hook)
    else:
        _hook(module.VectorEnv)


def adapt_sb3(module):
    """Take stable_baselines3.common.vec_env.base_vec_env."""
    core.follow_subclasses(module.VecEnv, _hook)


def adapt_pettingzoo(module):
    """Take pettingzoo.utils.env."""
    core.follow_subclasses(module.AECEnv, _hook)
    core.follow_subclasses(module.ParallelEnv, _hook)


def adapt_environment(module):
    """Take a module of dm_env or gymnax."""
    core.follow_subclasses(module.Environment, _hook)


def adapt_envpool(module):
    """Take envpool.python.envpool."""
    _hook_all(module.EnvPoolMixin)


def adapt_tianshou(module):
    """Take tianshou.env.venvs."""
    core.follow_subclasses(module.BaseVectorEnv, _hook)


def adapt_torchrl(module):
    """Take torchrl.envs.common."""
    core.follow_subclasses(module.EnvBase, _hook_all)
