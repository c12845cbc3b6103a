"""torch.compile and torch.export: what they see is the program as it would be without us.

The hook on the call of a module would be compiled with it. So it is taken away while torch compiles
or traces, and is there again when the program goes on: forward passes are seen from outside,
whether compiled or not; those inside what is compiled are part of it.
"""

import sys
from _thread import allocate_lock

from rlscope_phases import core, environments

lock = allocate_lock()
# The hook that is taken away, and how often that was asked for.
taken = None
depth = 0
is_ready = False


def adapt(torch):
    """Take torch."""
    for owner in (torch, getattr(torch, "export", None)):
        for name in ("compile", "export"):
            function = getattr(owner, name, None)
            if type(function) is core.Function:
                setattr(owner, name, _without_hook(torch, function))


def adapt_dynamo(utils):
    """Take torch._dynamo.utils, which keeps the call of a module to know it by, for later."""
    call = getattr(utils, "unpatched_nn_module_call", None)
    if type(call) is core.native.Hook:
        utils.unpatched_nn_module_call = call.__wrapped__


def adapt_convert_frame(module):
    """Take torch._dynamo.convert_frame, where a function is compiled when it is first called."""
    module._compile = _without_hook(sys.modules["torch"], module._compile)


def adapt_eval_frame(module):
    """Take torch._dynamo.eval_frame: a call of what is compiled is a forward pass, judged as one.

    The calls of modules in it are not seen, and it may learn as a whole.
    """
    enter = core.native.Hook(_enter, core.FORWARD)

    def add(context):
        hooks = getattr(context, "enter_exit_hooks", None)
        # Others stand for code that is not to be compiled.
        if isinstance(hooks, list) and getattr(context, "callback", None):
            hooks.append(enter)

    core.report_after(module._TorchDynamoContext, "__init__", add)


def _enter():
    """Take note of a call, in the place of a forward pass; return what takes note of its end."""
    core.native.compiled_began()
    return core.native.compiled_ended


def _without_hook(torch, function):
    def compiler(*args, **kwargs):
        core.failures.attempt(torch.__name__, _take_away, torch)
        # What waits for a compiler is part of what is compiled.
        key = id(args) if core.native.hold(id(args)) else None
        try:
            return function(*args, **kwargs)
        finally:
            if key is not None:
                core.native.leave(key)
            core.failures.attempt(torch.__name__, _put_back, torch)

    core.copy_names(function, compiler)
    return compiler


def _take_away(torch):
    global depth, taken
    with lock:
        depth += 1
        if depth == 1 and type(torch.nn.Module.__call__) is core.native.Hook:
            taken = torch.nn.Module.__call__
            torch.nn.Module.__call__ = taken.__wrapped__


def _put_back(torch):
    global depth, taken
    with lock:
        depth -= 1
        if depth > 0 or taken is None:
            return
        hook, taken = taken, None
        # Somebody else may have put a call of theirs there.
        if torch.nn.Module.__call__ is hook.__wrapped__ and _can_stay(torch):
            torch.nn.Module.__call__ = hook


def _can_stay(torch):
    """Tell whether torch leaves our own functions alone where it looks at each that is called."""
    global is_ready
    if is_ready or "torch._dynamo" not in sys.modules:
        return True
    convert = sys.modules.get("torch._dynamo.convert_frame")
    skip = getattr(convert, "skip_code", None)
    if skip is None or type(getattr(convert, "_compile", None)) is not core.Function:
        core.native.watch(None, None)
        environments.note_model()
        return False
    for name, module in list(sys.modules.items()):
        if name.startswith("rlscope_phases."):
            for code in _codes(vars(module).values()):
                skip(code)
    is_ready = True
    return True


def _codes(values):
    """Yield the code of functions and of methods of classes, and what is defined in them."""
    for value in values:
        if isinstance(value, type):
            yield from _codes(vars(value).values())
        elif type(value) is core.Function:
            yield from _inside(value.__code__)


def _inside(code):
    yield code
    for constant in code.co_consts:
        if type(constant) is type(code):
            yield from _inside(constant)
