"""PyTorch: backward passes and optimizer steps learn; a forward pass is recognised by its place.

torch's own hooks on forward passes cost too much. The call of a module gets a hook of ours instead,
which does nothing but where a forward pass decides what the thread does: the first after a step of
the environment, or after one of the optimizer. Which phase it means is known from what the same
place led to before.
"""

import sys

from rlscope_phases import compilers, core, environments, evaluation, frameworks, guesses
from rlscope_phases.call_sites import CallSites

# Whatever keys torch uses itself are numbers.
KEY = "rlscope"
sites = None


def has_seen_forward():
    """Return whether the program has called a module where we looked."""
    return sites is not None and sites.has_seen_forward


def adapt(torch):
    """Take torch, all of it that is as we know it."""
    takes = (_hook_backward, _hook_optimizer, _watch_forward, compilers.adapt, evaluation.adapt)
    for take in takes:
        core.failures.attempt(torch.__name__, take, torch)
    core.failures.attempt(torch.__name__, frameworks.watch_waits)


def _hook_backward(torch):
    # Tensor.backward, autograd.backward and autograd.grad all come through here.
    name = "_engine_run_backward" if hasattr(torch.autograd, "_engine_run_backward") else "backward"
    core.hook_function(torch.autograd, name, core.LEARN)


def _hook_optimizer(torch):
    is_compiling = _is_compiling(torch)
    learn, learned = core.native.learn, core.native.learned

    def before_step(optimizer, args, kwargs):
        # In a graph that is being compiled this folds to nothing. A closure may act before it.
        if not is_compiling() and (args[1] if len(args) > 1 else kwargs.get("closure")) is None:
            learn()

    optimizers = sys.modules[torch.optim.Optimizer.__module__]

    def after_step(optimizer, args, kwargs):
        if not is_compiling():
            learned()

    optimizers._global_optimizer_pre_hooks[KEY] = before_step
    optimizers._global_optimizer_post_hooks[KEY] = after_step
    # An optimizer is made when the program's classes exist and nothing is simulated yet.
    patch_step = optimizers.Optimizer._patch_step_function

    def _patch_step_function(self):
        core.failures.attempt(guesses.OWN, guesses.look)
        # Self-play may come before anything learns.
        core.native.prepares()
        return patch_step(self)

    core.copy_names(patch_step, _patch_step_function)
    optimizers.Optimizer._patch_step_function = _patch_step_function


def _watch_forward(torch):
    core.hook_function(torch.nn.Module, "__call__", core.FORWARD)
    watch(CallSites(torch))


def watch(made):
    """Have forward passes judged by it."""
    global sites
    sites = made
    core.native.watch(sites.judge, sites.resolve)
    environments.settle_default_gap()


def _is_compiling(torch):
    compiler = getattr(torch, "compiler", None)
    found = getattr(compiler, "is_compiling", None)
    return found if found is not None else lambda: False
