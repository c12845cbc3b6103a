"""JAX: functions that it compiles act, learn or simulate, as a whole.

What is inside one is not seen. What it does as a whole shows while it is traced, in its first call:
one that takes gradients learns, one that steps environments simulates. Any other is taken for what
a forward pass of PyTorch is: which phase it means is known from what the same place led to before.
"""

import functools
import sys

from rlscope_phases import core, frameworks, torch_hooks
from rlscope_phases.call_sites import CallSites


class _NoGradients:
    """Stands for torch where a program has none."""

    class _C:
        pass

    @staticmethod
    def is_grad_enabled():
        return False


def adapt(jax):
    """Take jax."""
    core.failures.attempt(jax.__name__, _hook_gradients, jax)
    _hook_jit(jax)
    if torch_hooks.sites is None:
        torch_hooks.watch(CallSites(_NoGradients))
    core.failures.attempt(jax.__name__, frameworks.watch_waits)


def _hook_gradients(jax):
    api = sys.modules["jax._src.api"]
    # grad() and value_and_grad() come through here.
    name = "_vjp" if hasattr(api, "_vjp") else "vjp"
    function = getattr(api, name)
    differentiated = core.native.differentiated

    def vjp(*args, **kwargs):
        differentiated()
        return function(*args, **kwargs)

    core.copy_names(function, vjp)
    setattr(api, name, vjp)
    if getattr(jax, name, None) is function:
        setattr(jax, name, vjp)


def _hook_jit(jax):
    function = jax.jit

    def jit(*args, **kwargs):
        made = function(*args, **kwargs)
        if _is_jax(sys._getframe(1)):
            return made
        # Without a function it returns what takes one.
        if not args and "fun" not in kwargs:
            return functools.partial(jit, **kwargs)
        return core.native.Hook(made, core.COMPILED)

    core.copy_names(function, jit)
    jax.jit = jit


def _is_jax(frame):
    name = frame.f_globals.get("__name__", "")
    return name == "jax" or name.startswith("jax.")
