"""Evaluation in a loop of the program's own: a model that acts in training mode leaves it.

That a model is in evaluation mode alone says nothing: targets and copies are, and many programs
always act in it. So it has to have acted while it was in training mode, and its thread has to have
stepped an environment since. Evaluation begins with the first call into an environment: who only
asks the model, to act or for a target, evaluates nothing. It ends where the model is in training
mode again, or where the thread learns: thread_phase.h.
"""

import weakref
from _thread import _local

from rlscope_phases import core, frameworks

# As in thread_phase.h.
MODE_KEY = 1
# What stands in operation.framework_name.
LABEL = "Module.eval"
# So many train(True) without any eval(), and it is no longer watched.
MOST_TRAININGS = 64

is_watched = has_evaluated = False
trainings = 0
# Modules that acted, by id.
_acting = weakref.WeakValueDictionary()


class _State(_local):
    """Of a thread: modules whose calls are not judged yet, and the model that is evaluated."""

    def __init__(self):
        self.called = []
        # Steps of its environments when a model was last put into training mode.
        self.steps = 0
        self.evaluated = None
        self.is_inside = False


_state = _State()


def note_forward(arguments):
    """Take note of a forward pass that is to be judged; the module is the first argument."""
    _state.called.append(arguments[0])


def note_result(is_acting):
    """Take note of what those that are not judged yet led to."""
    if is_acting:
        _acting.update((id(module), module) for module in _state.called)
    _state.called.clear()


def adapt(torch):
    """Take torch.nn.Module."""
    module = torch.nn.Module
    evaluate = module.eval

    def eval(self):
        was_training = self.training
        result = evaluate(self)
        if was_training:
            core.failures.attempt(torch.__name__, _note_eval, torch)
            core.failures.attempt(torch.__name__, _begin, self)
        return result

    core.copy_names(evaluate, eval)
    module.eval = eval
    _watch_training(torch)


def _watch_training(torch):
    """Take note of train(), which is called for each part of a model."""
    global is_watched
    is_watched = True
    module = torch.nn.Module
    train = module.train

    def train_or_not(self, mode=True):
        if not mode or _state.is_inside:
            return train(self, mode)
        _state.is_inside = True
        try:
            return train(self, mode)
        finally:
            _state.is_inside = False
            core.failures.attempt(torch.__name__, _end, self)
            core.failures.attempt(torch.__name__, _let_go, module, train_or_not, train)

    core.copy_names(train, train_or_not)
    module.train = train_or_not


def _let_go(module, ours, theirs):
    """Let train() be where nobody evaluates: some libraries act by train(False), at each step."""
    global is_watched, trainings
    trainings += 1
    if trainings >= MOST_TRAININGS and not has_evaluated and module.train is ours:
        module.train = theirs
        is_watched = False


def _note_eval(torch):
    global has_evaluated
    has_evaluated = True
    if not is_watched:
        _watch_training(torch)


def _begin(model):
    *_, steps = core.native.state()
    if not _acting or steps <= _state.steps:
        return
    if any(_acting.get(id(part)) is part for part in model.modules()):
        core.native.evaluates(frameworks.label_of(LABEL))
        _state.evaluated = id(model)


def _end(model):
    *_, _state.steps = core.native.state()
    if _state.evaluated == id(model):
        _state.evaluated = None
        core.native.evaluates(0)
        core.native.leave(MODE_KEY)
