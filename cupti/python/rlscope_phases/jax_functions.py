"""JAX: functions that it compiles act, learn or simulate, as a whole.

What is inside one is not seen. What it does as a whole shows while it is traced, in its first call:
one that takes gradients learns, one that steps environments simulates. Any other is taken for what
a forward pass of PyTorch is: which phase it means is known from what the same place led to before.
"""

import functools
import sys

from rlscope_phases import core, environments, frameworks, guesses, torch_hooks
from rlscope_phases.call_sites import CallSites

# In the name of a function, beside those of the methods of an environment.
ENVIRONMENT_WORDS = {"env", "envs", "environment"}
METHODS = {"step", "reset"}


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
    core.failures.attempt(jax.__name__, _watch_compiler, jax)
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


def _watch_compiler(jax):
    """Have an update go on while what it calls is compiled, operation by operation."""

    def compiled(event, _duration, **_):
        is_last = event.endswith("backend_compile_duration")
        if is_last and core.native.phase() == core.BACKPROPAGATION:
            core.native.learned()

    monitoring = getattr(jax, "monitoring", None)
    if monitoring is not None:
        monitoring.register_event_duration_secs_listener(compiled)


def _look(*_args, **_kwargs):
    """Look for environments of the program's own before a function is traced that may step one."""
    core.failures.attempt(guesses.OWN, guesses.look)


def _hook_jit(jax):
    function = jax.jit

    def jit(*args, **kwargs):
        made = function(*args, **kwargs)
        if _is_jax(sys._getframe(1)):
            return made
        # Without a function it returns what takes one.
        if not args and "fun" not in kwargs:
            return functools.partial(jit, **kwargs)
        method = _environments_method(args[0] if args else kwargs["fun"])
        phase = core.NONE if method is None else core.SIMULATION
        steps = core.UNKNOWN_STEPS if method == "step" else core.NO_STEP
        return core.native.Hook(made, core.COMPILED, phase, False, steps, 0, _look)

    core.copy_names(function, jit)
    jax.jit = jit


def _environments_method(function):
    """Return which method of an environment a function is by its name, None if it is none.

    It is called so and is a method of an object that has both, or has a word for it in its name.
    """
    words = set(getattr(function, "__name__", "").strip("_").lower().split("_"))
    method = next(iter(words & METHODS), None)
    if method is None or words & ENVIRONMENT_WORDS:
        return method
    # vmap and others keep what they wrap.
    while function is not None and not hasattr(function, "__self__"):
        function = getattr(function, "__wrapped__", None)
    cls = type(getattr(function, "__self__", None))
    is_environment = all(callable(getattr(cls, name, None)) for name in METHODS)
    return method if is_environment and not environments.is_something_else(cls) else None


def _is_jax(frame):
    name = frame.f_globals.get("__name__", "")
    return name == "jax" or name.startswith("jax.")
