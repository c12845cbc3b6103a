"""Environments: the calls into the outermost one are the simulation.

Environments are wrapped, and vectors of them hold others; hooking each layer would cost at each
layer. So only reset() is hooked everywhere, which is called rarely, and the type of the object on
which it was called from outside gets its step() hooked.
"""

import sys

from rlscope_phases import core

STEPS = ("step", "step_async", "step_wait", "reset_async", "reset_wait", "send", "recv", "last")
# How many steps of environments the others are: none. What begins a step is counted where it ends.
COUNTED = {
    "step": core.AS_RESULT,
    "step_wait": core.AS_RESULT,
    "step_and_maybe_reset": core.AS_RESULT,
    "send": core.AS_ACTION,
}
# Of networks, optimizers, schedulers and the like, which have a step() or a reset(), too.
NOT_OF_ENVIRONMENTS = ("forward", "backward", "state_dict", "parameters", "zero_grad", "fit")
# In place of the module of an adapter.
WRAPPERS = "wrappers of environments"
# Classes whose steps are counted in another way than by what they return.
counted_otherwise = []
adopted = set()
has_unwatched_model = False
# A library says itself when it acts, whatever its models are made of.
says_when_it_acts = False


class Probe:
    """Has a method, to take the type of bound methods from."""

    def method(self):
        """Do nothing."""


def adopt(environment, frame):
    """Put hooks on the type of an environment that the program calls itself, in this frame."""
    cls = type(environment)
    adopted.add(cls)
    core.end_first()
    settle_default_gap()
    _hook_steps(cls)
    core.failures.attempt(WRAPPERS, _adopt_wrapper, frame)


def _adopt_wrapper(frame):
    """Put hooks on what the program calls, if it is the step() of an object around the environment.

    So it is where the environment was reset in the reset() of an object that has such a step().
    Libraries have wrappers of their own, derived from nothing that we know.
    """
    wrapper = None
    while frame is not None and frame.f_code.co_name == "reset":
        holder = _holder_of(frame)
        if holder is None:
            break
        wrapper, frame = holder, frame.f_back
    if wrapper is not None and type(wrapper) not in adopted:
        cls = type(wrapper)
        adopted.add(cls)
        core.hook_steps(_owner_of_step(cls), ("step",), steps_of, is_guess=True)


def _holder_of(frame):
    """Return the object whose reset() it is, None if it does not look like an environment."""
    code = frame.f_code
    holder = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    cls = type(holder)
    if not any(_code_of(base, "reset") is code for base in cls.__mro__):
        return None
    if is_something_else(cls):
        return None
    owner = _owner_of_step(cls)
    is_step = owner is not None and takes_action(owner.__dict__["step"])
    return holder if is_step else None


def _code_of(cls, name):
    return getattr(cls.__dict__.get(name), "__code__", None)


def _owner_of_step(cls):
    """Return the class that defines its step(), None if that is no plain function."""
    owner = next((base for base in cls.__mro__ if "step" in base.__dict__), None)
    is_plain = owner is not None and type(owner.__dict__["step"]) is core.Function
    return owner if is_plain else None


def is_something_else(cls):
    """Tell whether a class is no environment, whatever it has beside this."""
    return any(hasattr(cls, name) for name in NOT_OF_ENVIRONMENTS)


def takes_action(step):
    """Tell whether a step() has an argument."""
    # What JAX compiles has no code of its own.
    while not hasattr(step, "__code__"):
        step = step.__wrapped__
    return step.__code__.co_argcount >= 2


def _hook_steps(cls):
    is_hooked = False
    for name in STEPS:
        function = next(
            (base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None
        )
        if type(function) is core.Function:
            hook = core.native.Hook(function, core.STEP, core.NONE, False, _counter(cls)(name))
            setattr(cls, name, hook)
        is_hooked = is_hooked or type(function) in (core.Function, core.native.Hook)
    if not is_hooked:
        raise TypeError(cls.__module__ + "." + cls.__qualname__ + ".step is no plain function")


def _counter(cls):
    """Return a function from the name of a method to how many steps its calls are."""
    way = next((way for base, way in counted_otherwise if issubclass(cls, base)), None)
    return lambda name: COUNTED.get(name, core.NO_STEP) and (way or COUNTED[name])


def steps_of(name):
    """Return how many steps the calls of a method are, in a class that we do not know."""
    return COUNTED.get(name, core.NO_STEP)


def note_model():
    """Take note that the program has a model whose forward passes cannot be watched."""
    global has_unwatched_model
    has_unwatched_model = True
    settle_default_gap()


def note_acting(algorithm):
    """Take note that the program uses an algorithm that says itself when it acts."""
    global says_when_it_acts
    says_when_it_acts = True
    settle_default_gap()


def settle_default_gap():
    """Take what lies between two steps for acting where nothing else would show a model."""
    process = sys.modules.get("multiprocessing.process")
    is_worker = process is not None and process.parent_process() is not None
    forward = sys.modules.get("rlscope_phases.torch_hooks")
    is_known = is_worker or says_when_it_acts
    is_known = is_known or (forward is not None and forward.has_seen_forward())
    acts = has_unwatched_model and not is_known
    core.native.default_gap(core.INFERENCE if acts else core.NONE)


def _hook(cls):
    core.hook_own(cls, ("reset",), core.RESET)
    core.hook_own(cls, ("close",), core.CLOSE)
    if core.is_late:
        core.hook_steps(cls, STEPS, _counter(cls))


def _hook_all(cls):
    """Put hooks on a class whose objects are never part of another environment."""
    core.hook_own(cls, ("reset", "async_reset"), core.RESET)
    core.hook_steps(cls, ("step_and_maybe_reset", *STEPS), _counter(cls))
    core.hook_own(cls, ("close",), core.CLOSE)


def adapt_env(module):
    """Take gymnasium.core or gym.core."""
    core.follow_subclasses(module.Env, _hook, needs=("reset", "step"))


def adapt_brax(module):
    """Take brax.envs.base, whose steps return one object, and run compiled as a rule.

    What compiles a step() takes it from its object before any of those is reset.
    """
    counted_otherwise.append((module.Env, core.UNKNOWN_STEPS))
    core.follow_subclasses(module.Env, _hook_all, needs=("reset", "step"))


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
    """Take pettingzoo.utils.env: a step of one agent in turn, or of all of them, is one."""
    counted_otherwise.append((module.AECEnv, core.ONE_STEP))
    counted_otherwise.append((module.ParallelEnv, core.ONE_STEP))
    core.follow_subclasses(module.AECEnv, _hook, needs=("reset", "step", "last"))
    core.follow_subclasses(module.ParallelEnv, _hook, needs=("reset", "step"))


def adapt_dm_env(module):
    """Take dm_env._environment."""
    counted_otherwise.append((module.Environment, core.ONE_STEP))
    core.follow_subclasses(module.Environment, _hook, needs=("reset", "step"))


def adapt_gymnax(module):
    """Take gymnax.environments.environment: what is called is traced, and runs many times."""
    counted_otherwise.append((module.Environment, core.UNKNOWN_STEPS))
    core.follow_subclasses(module.Environment, _hook_all, needs=("reset", "step"))


def adapt_envpool(module):
    """Take envpool.python.envpool."""
    _hook_all(module.EnvPoolMixin)


def adapt_tianshou(module):
    """Take tianshou.env.venvs."""
    core.follow_subclasses(module.BaseVectorEnv, _hook, needs=("reset", "step"))


def adapt_rsl_rl(module):
    """Take rsl_rl.env.vec_env, of whose environments none need be reset."""
    core.follow_subclasses(module.VecEnv, _hook_all, needs=("step",))


def adapt_torchrl(module):
    """Take torchrl.envs.common, whose steps return dictionaries of tensors."""
    counted_otherwise.append((module.EnvBase, core.AS_BATCH_SIZE))
    core.follow_subclasses(module.EnvBase, _hook_all, needs=("reset", "step"))
