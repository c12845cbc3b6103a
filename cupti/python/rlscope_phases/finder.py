"""Runs an adapter right after the program has imported the module it belongs to."""

import sys

import rlscope_phases

# Module of the program -> "module of ours:function that takes it".
ADAPTERS = {
    "torch": "torch_hooks:adapt",
    "torch._dynamo.utils": "torch_hooks:adapt_dynamo",
    "flax.linen.module": "models:adapt_flax",
    "keras.src.layers.layer": "models:adapt_keras",
    "gymnasium.core": "environments:adapt_env",
    "gymnasium.vector.vector_env": "environments:adapt_vector_env",
    "gym.core": "environments:adapt_env",
    "gym.vector.vector_env": "environments:adapt_vector_env",
    "pettingzoo.utils.env": "environments:adapt_pettingzoo",
    "dm_env._environment": "environments:adapt_dm_env",
    "brax.envs.base": "environments:adapt_brax",
    "gymnax.environments.environment": "environments:adapt_gymnax",
    "envpool.python.envpool": "environments:adapt_envpool",
    "tianshou.env.venvs": "environments:adapt_tianshou",
    "tianshou.data.buffer.base": "buffers:adapt_replay_buffer",
    "tianshou.data.buffer.buffer_base": "buffers:adapt_replay_buffer",
    "torchrl.envs.common": "environments:adapt_torchrl",
    "torchrl.data.replay_buffers.replay_buffers": "buffers:adapt_replay_buffer",
    "ray.rllib.utils.replay_buffers.replay_buffer": "buffers:adapt_replay_buffer",
    "stable_baselines3.common.vec_env.base_vec_env": "environments:adapt_sb3",
    "stable_baselines3.common.base_class": "stable_baselines:adapt",
    "stable_baselines3.common.buffers": "buffers:adapt_sb3",
}
# The same of modules whose names are reported. They need no tool before there is one.
NAMES = {
    "threading": "names:adapt_threading",
    "multiprocessing.process": "names:adapt_process",
}


def adapt(name, module):
    """Run the adapter of a module; what it cannot do in this version of the library is reported."""
    listener = _listener()
    if listener is None:
        return
    core = listener.core
    if name in NAMES:
        core.failures.attempt(name, core.run, NAMES[name], module)
    elif listener.is_on():
        core.failures.attempt(name, core.run, ADAPTERS[name], module)


def _listener():
    """Return what loads the native half; None: this installation is damaged."""
    try:
        from rlscope_phases import listener
    except Exception as error:
        rlscope_phases.status = "phases cannot be loaded: " + repr(error)
        return None
    return listener


def _cannot_follow(name, loader):
    listener = _listener()
    if listener is not None and listener.is_on():
        error = TypeError(type(loader).__name__ + " runs modules in its own way")
        listener.failures.note(name, error)


def adapt_imported():
    """Run the adapters of all modules that are imported already, environments' steps included."""
    listener = _listener()
    if listener is None:
        return
    listener.core.is_late = True
    for name in ADAPTERS:
        module = sys.modules.get(name)
        if module is not None:
            adapt(name, module)


def _follow(name, spec):
    """Have the adapter run when the module of `spec` has been executed.

    The loader stays what it is, for whoever asks it for source or resources later.
    """
    loader = spec.loader
    # A folder of that name without a module in it.
    if loader is None:
        return
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        _cannot_follow(name, loader)
        return

    def exec_module(module):
        try:
            del loader.exec_module
        except AttributeError:
            pass
        execute(module)
        adapt(name, module)

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        _cannot_follow(name, loader)


class Finder:
    """Finds nothing itself: asks the other finders for the modules above."""

    def find_spec(self, name, path=None, target=None):
        """Return what the next finder returns, None for all other modules."""
        if name not in ADAPTERS and name not in NAMES:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                _follow(name, spec)
                return spec
        return None

    def invalidate_caches(self):
        """Nothing is cached."""


def insert():
    """Watch imports; modules whose names are reported may have been imported already."""
    sys.meta_path.insert(0, Finder())
    for name in NAMES:
        module = sys.modules.get(name)
        if module is not None:
            adapt(name, module)
