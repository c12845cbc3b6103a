"""Environments: the calls into the outermost one are the simulation.

Environments are wrapped, and vectors of them hold others; hooking each layer would cost at each
layer. So only reset() is hooked everywhere, which is called rarely, and the type of the object on
which it was called from outside gets its step() hooked.
"""

import sys

from rlscope_phases import core

STEPS = ("step", "step_async", "step_wait", "reset_async", "reset_wait", "send", "recv", "last")
adopted = set()
has_unwatched_model = False


class Probe:
    """Has a method, to take the type of bound methods from."""

    def method(self):
        """Do nothing."""


def adopt(environment):
    """Put hooks on the type of an environment that the program calls itself."""
    cls = type(environment)
    adopted.add(cls)
    core.end_first()
    settle_default_gap()
    from rlscope_phases import guesses

    core.failures.attempt(guesses.OWN, guesses.look)
    _hook_steps(cls)


def _hook_steps(cls):
    is_hooked = False
    for name in STEPS:
        function = next(
            (base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None
        )
        if type(function) is core.Function:
            setattr(cls, name, core.native.Hook(function, core.STEP))
        is_hooked = is_hooked or type(function) in (core.Function, core.native.Hook)
    if not is_hooked:
        raise TypeError(cls.__module__ + "." + cls.__qualname__ + ".step is no plain function")


def note_model():
    """Take note that the program has a model whose forward passes cannot be watched."""
    global has_unwatched_model
    has_unwatched_model = True
    settle_default_gap()


def settle_default_gap():
    """Take what lies between two steps for acting where nothing else would tell of a model."""
    process = sys.modules.get("multiprocessing.process")
    is_worker = process is not None and process.parent_process() is not None
    forward = sys.modules.get("rlscope_phases.torch_hooks")
    is_told = is_worker or (forward is not None and forward.has_seen_forward())
    acts = has_unwatched_model and not is_told
    core.native.default_gap(core.INFERENCE if acts else core.NONE)


def _hook(cls):
    core.hook_own(cls, ("reset",), core.RESET)
    core.hook_own(cls, ("close",), core.CLOSE)
    if core.is_late:
        core.hook_own(cls, STEPS, core.STEP)


def _hook_all(cls):
    """Put hooks on a class whose objects are never part of another environment."""
    core.hook_own(cls, ("reset", "async_reset"), core.RESET)
    core.hook_own(cls, ("step_and_maybe_reset", *STEPS), core.STEP)
    core.hook_own(cls, ("close",), core.CLOSE)


def adapt_env(module):
    """Take gymnasium.core, gym.core or brax.envs.base."""
    core.follow_subclasses(module.Env, _hook, needs=("reset", "step"))


def adapt_vector_env(module):
    """Take gymnasium.vector.vector_env; in older versions a VectorEnv is an Env."""
    if not hasattr(sys.modules.get(module.VectorEnv.__mro__[1].__module__), "Env"):
        core.follow_subclasses(module.VectorEnv, _hook, needs=("reset", "step"))
    else:
        _hook(module.VectorEnv)


def adapt_sb3(module):
    """Take stable_baselines3.common.vec_env.base_vec_env."""
    core.follow_subclasses(module.VecEnv, _hook, needs=("reset", "step_async", "step_wait"))


def adapt_pettingzoo(module):
    """Take pettingzoo.utils.env."""
    core.follow_subclasses(module.AECEnv, _hook, needs=("reset", "step", "last"))
    core.follow_subclasses(module.ParallelEnv, _hook, needs=("reset", "step"))


def adapt_environment(module):
    """Take a module of dm_env or gymnax."""
    core.follow_subclasses(module.Environment, _hook, needs=("reset", "step"))


def adapt_envpool(module):
    """Take envpool.python.envpool."""
    _hook_all(module.EnvPoolMixin)


def adapt_tianshou(module):
    """Take tianshou.env.venvs."""
    core.follow_subclasses(module.BaseVectorEnv, _hook, needs=("reset", "step"))


def adapt_torchrl(module):
    """Take torchrl.envs.common."""
    core.follow_subclasses(module.EnvBase, _hook_all, needs=("reset", "step"))
