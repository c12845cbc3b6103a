"""Lets the workers of a Ray job report themselves, too: RAY_RUNTIME_ENV_HOOK of its driver.

`rlscope-trace fleet launch` puts the variables of the shim where `variables` finds them. What the
program sets for its workers itself is left alone.
"""

import os

VARIABLES = "RLSCOPE_RAY_VARIABLES"
OWN_HOOK = "RLSCOPE_RAY_HOOK"
_HOOK = "RAY_RUNTIME_ENV_HOOK"
_PATH = "PYTHONPATH"


def insert():
    """Let `ray.init` ask us, where this is a driver that is recorded."""
    if VARIABLES not in os.environ:
        return
    ours = add_variables.__module__ + "." + add_variables.__name__
    if os.environ.get(_HOOK) not in (None, ours):
        os.environ[OWN_HOOK] = os.environ[_HOOK]
    os.environ[_HOOK] = ours


def add_variables(runtime_env):
    """Return the runtime environment of a job with our variables in it."""
    changed = dict(_asked_first(runtime_env) or {})
    own = dict(changed.get("env_vars") or {})
    ours = dict(part.split("=", 1) for part in os.environ[VARIABLES].split("\n") if part)
    folder = ours.get(_PATH)
    merged = {**ours, **own}
    if folder:
        # Of the workers, which need not be that of the driver.
        merged[_PATH] = folder + os.pathsep + own.get(_PATH, "${" + _PATH + "}")
    changed["env_vars"] = merged
    return changed


def _asked_first(runtime_env):
    """Return what the hook of the program's own makes of it."""
    own = os.environ.get(OWN_HOOK)
    if not own:
        return runtime_env
    import importlib

    module, _, name = own.rpartition(".")
    return getattr(importlib.import_module(module), name)(runtime_env)
