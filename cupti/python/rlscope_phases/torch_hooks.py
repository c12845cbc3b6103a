"""PyTorch: backward passes and optimizer steps are learning; a forward pass is told by its place.

torch's own hooks on forward passes are too dear. The call of a module gets a hook of ours instead,
which does nothing but where a forward pass decides what the thread does: the first after a step of
the environment, or after one of the optimizer. Which phase it means is known from what the same
place led to before.
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
    core.hook_own(torch.nn.Module, ("__call__",), core.FORWARD)
    sites = CallSites(torch)
    core.native.watch(sites.judge, sites.resolve)
    core.native.default_gap(core.NONE)
    _stop_at_compilers(torch)


def adapt_dynamo(utils):
    """Take torch._dynamo.utils, which keeps the call of a module to know it by, for later."""
    call = getattr(utils, "unpatched_nn_module_call", None)
    if type(call) is core.native.Hook:
        utils.unpatched_nn_module_call = call.__wrapped__


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
                setattr(owner, name, _stopping(torch, function))


def _stopping(torch, function):
    def compiler(*args, **kwargs):
        module = torch.nn.Module
        if type(module.__call__) is core.native.Hook:
            module.__call__ = module.__call__.__wrapped__
        core.native.watch(None, None)
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
