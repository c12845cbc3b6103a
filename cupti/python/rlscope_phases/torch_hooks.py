"""PyTorch: backward passes and optimizer steps are learning; a forward pass is told by its place.

Hooks on every forward pass are too dear. One is put in where a forward pass would decide what the
thread does, after a step of the environment and after one of the optimizer, and taken out when it
has been called. Which phase it means is known from what the same place led to before.
"""

import sys

from rlscope_phases import core, guesses
from rlscope_phases.call_sites import CallSites

# Whatever keys torch uses itself are numbers.
KEY = "rlscope"
sites = None


def has_seen_forward():
    """Return whether the program has called a module where we looked."""
    return sites is not None and sites.has_seen_forward


def adapt(torch):
    """Take torch."""
    global sites
    _hook_backward(torch)
    _hook_optimizer(torch)
    hooks = sys.modules[torch.nn.Module.__module__]
    before, after = hooks._global_forward_pre_hooks, hooks._global_forward_hooks
    frames = _frames_of_a_call(torch, before)
    sites = CallSites(torch, after, KEY, frames)
    core.native.watch(before, KEY, sites.make_hook(), sites.resolve)
    core.native.default_gap(core.NONE)
    _stop_at_compilers(torch)


def _frames_of_a_call(torch, before):
    """Return how many frames lie between a hook and the caller of the module, the hook's included.

    It has changed between versions of torch; so one is called.
    """
    counts = []

    def count(module, args):
        frame, frames = sys._getframe(0), 0
        while frame.f_code is not _frames_of_a_call.__code__:
            frame, frames = frame.f_back, frames + 1
        counts.append(frames)

    before[KEY] = count
    try:
        torch.nn.Identity()(None)
    finally:
        del before[KEY]
    return counts[0]


def _hook_backward(torch):
    # Tensor.backward, autograd.backward and autograd.grad all come through here.
    name = "_engine_run_backward" if hasattr(torch.autograd, "_engine_run_backward") else "backward"
    function = getattr(torch.autograd, name)
    if type(function) is core.Function:
        setattr(torch.autograd, name, core.native.Hook(function, core.LEARN))


def _hook_optimizer(torch):
    is_compiling = _is_compiling(torch)
    learn = core.native.learn

    def before_step(optimizer, args, kwargs):
        # In a graph that is being compiled this folds to nothing.
        if not is_compiling():
            learn()

    optimizers = sys.modules[torch.optim.Optimizer.__module__]
    hooks = getattr(optimizers, "_global_optimizer_pre_hooks", None)
    if hooks is not None:
        hooks[KEY] = before_step
    # An optimizer is made when the program's classes exist and nothing is simulated yet.
    patch_step = getattr(optimizers.Optimizer, "_patch_step_function", None)
    if type(patch_step) is core.Function:

        def _patch_step_function(self):
            guesses.look()
            return patch_step(self)

        _copy_names(patch_step, _patch_step_function)
        optimizers.Optimizer._patch_step_function = _patch_step_function


def _is_compiling(torch):
    compiler = getattr(torch, "compiler", None)
    found = getattr(compiler, "is_compiling", None)
    return found if found is not None else lambda: False


def _stop_at_compilers(torch):
    """Stop watching forward passes where they are compiled: hooks would be compiled, too."""
    for owner in (torch, getattr(torch, "export", None)):
        for name in ("compile", "export"):
            function = getattr(owner, name, None)
            if type(function) is core.Function:
                setattr(owner, name, _stopping(function))


def _stopping(function):
    def compiler(*args, **kwargs):
        core.native.watch(None, None, None, None)
        process = sys.modules.get("multiprocessing.process")
        if process is None or process.parent_process() is None:
            core.native.default_gap(core.INFERENCE)
        return function(*args, **kwargs)

    _copy_names(function, compiler)
    return compiler


def _copy_names(source, target):
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(target, name, getattr(source, name))
    target.__wrapped__ = source
