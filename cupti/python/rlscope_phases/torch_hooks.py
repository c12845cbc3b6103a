"""PyTorch: backward passes and optimizer steps are learning; a forward pass is told by its place.

torch's own hooks on forward passes cost too much. The call of a module gets a hook of ours instead,
which does nothing but where a forward pass decides what the thread does: the first after a step of
the environment, or after one of the optimizer. Which phase it means is known from what the same
place led to before.
"""

import sys

from rlscope_phases import core, environments, guesses
from rlscope_phases.call_sites import CallSites

# Whatever keys torch uses itself are numbers.
KEY = "rlscope"
sites = None


def has_seen_forward():
    """Return whether the program has called a module where we looked."""
    return sites is not None and sites.has_seen_forward


def adapt(torch):
    """Take torch, all of it that is as we know it."""
    for take in (_hook_backward, _hook_optimizer, _watch_forward, _stop_at_compilers):
        core.failures.attempt(torch.__name__, take, torch)


def adapt_dynamo(utils):
    """Take torch._dynamo.utils, which keeps the call of a module to know it by, for later."""
    call = getattr(utils, "unpatched_nn_module_call", None)
    if type(call) is core.native.Hook:
        utils.unpatched_nn_module_call = call.__wrapped__


def _hook_backward(torch):
    # Tensor.backward, autograd.backward and autograd.grad all come through here.
    name = "_engine_run_backward" if hasattr(torch.autograd, "_engine_run_backward") else "backward"
    core.hook_function(torch.autograd, name, core.LEARN)


def _hook_optimizer(torch):
    is_compiling = _is_compiling(torch)
    learn = core.native.learn

    def before_step(optimizer, args, kwargs):
        # In a graph that is being compiled this folds to nothing.
        if not is_compiling():
            learn()

    optimizers = sys.modules[torch.optim.Optimizer.__module__]
    optimizers._global_optimizer_pre_hooks[KEY] = before_step
    # An optimizer is made when the program's classes exist and nothing is simulated yet.
    patch_step = optimizers.Optimizer._patch_step_function

    def _patch_step_function(self):
        core.failures.attempt(guesses.OWN, guesses.look)
        return patch_step(self)

    core.copy_names(patch_step, _patch_step_function)
    optimizers.Optimizer._patch_step_function = _patch_step_function


def _watch_forward(torch):
    global sites
    core.hook_function(torch.nn.Module, "__call__", core.FORWARD)
    sites = CallSites(torch)
    core.native.watch(sites.judge, sites.resolve)
    environments.settle_default_gap()


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
        core.failures.attempt(torch.__name__, _stop_watching, torch)
        return function(*args, **kwargs)

    core.copy_names(function, compiler)
    return compiler


def _stop_watching(torch):
    global sites
    module = torch.nn.Module
    if type(module.__call__) is core.native.Hook:
        module.__call__ = module.__call__.__wrapped__
    core.native.watch(None, None)
    sites = None
    environments.note_model()
