"""Models whose forward passes are compiled: what can be seen of them is that there is one.

Where a program has run such a model, what lies between two steps of its environment is taken for
acting; without one it is not.
"""

from rlscope_phases import core, environments


def adapt_flax(module):
    """Take flax.linen.module."""
    _notice_first(module.Module, "apply")


def adapt_keras(module):
    """Take keras.src.layers.layer."""
    _notice_first(module.Layer, "__call__")


def _notice_first(cls, name):
    """Have the first call of a method show that there is a model; the others are as they were."""
    function = getattr(cls, name)

    def first(*args, **kwargs):
        core.failures.attempt(cls.__module__, _notice, cls, name, function)
        return function(*args, **kwargs)

    core.copy_names(function, first)
    setattr(cls, name, first)


def _notice(cls, name, function):
    setattr(cls, name, function)
    environments.note_model()
