"""Runs an adapter right after the program has imported the module it belongs to."""

import os
import sys

import rlscope_phases

TABLE = os.path.join(os.path.dirname(__file__), "phases.table")
# The user's own rows: --phases FILE.
OWN_ROWS = "RLSCOPE_PHASES"
# Modules whose names and locks are reported, or that profile. They need no tool before.
NAMES = {
    "threading": "names:adapt_threading",
    "multiprocessing.process": "names:adapt_process",
    "multiprocessing.synchronize": "locks:adapt",
}
if "RLSCOPE_JAX_PROFILE" in os.environ:
    NAMES["jax"] = "jax_profile:adapt"


# The modules that rows wait for: filled by insert().
watched = {}


def read():
    """Return our table and the user's, which may be empty."""
    with open(TABLE, encoding="utf-8") as file:
        return file.read(), os.environ.get(OWN_ROWS, "")


def modules(text):
    """Return the modules of a table that is known to be one: all that a start needs of it."""
    found = {}
    for line in text.split("\n"):
        if line and line[0] != "#":
            cells = line.split("|")
            if not is_plain_wait(cells[5].strip(), cells[4].strip()):
                found[cells[2].strip()] = None
    found.pop('"', None)
    return found


def is_plain_wait(phase, names):
    """Tell whether a row is of a wait without a name: of interest where something learns."""
    return phase == "wait" and names in ("-", ("-",))


def adapt(name, module):
    """Put the rows of a module in place; what this version of its library refuses is reported."""
    listener = _listener()
    if listener is not None and name in NAMES:
        listener.failures.attempt(name, listener.core.run, NAMES[name], module)
    if name not in watched:
        return
    if listener is not None and listener.is_on():
        listener.failures.attempt(name, listener.core.run, "frameworks:adapt", module)
    else:
        _report_absence()


def _report_absence():
    """Report that there are no phases, where there would have been some."""
    if not rlscope_phases.is_late and rlscope_phases.status != "no_tool":
        from rlscope_phases import absence

        absence.report(rlscope_phases.status)


def _listener():
    """Return what loads the native half; None: this Python, or this installation, cannot."""
    if rlscope_phases.status not in ("waiting", "on", "no_tool"):
        return None
    try:
        from rlscope_phases import listener
    except Exception as error:
        rlscope_phases.status = "not_loaded\t" + repr(error)
        return None
    return listener


def _cannot_follow(name, loader):
    listener = _listener()
    if listener is not None and listener.is_on():
        error = TypeError(type(loader).__name__ + " runs modules in its own way")
        listener.failures.note(name, error)


def adapt_imported():
    """Run the adapters of all modules that are imported already, environments' steps included."""
    listener = _listener()
    if listener is None:
        return
    listener.core.is_late = True
    for name in list(watched):
        module = sys.modules.get(name)
        if module is not None:
            adapt(name, module)


def _follow(name, spec):
    """Have the adapter run when the module of `spec` has been executed.

    The loader stays what it is, for whoever asks it for source or resources later.
    """
    loader = spec.loader
    # A folder of that name without a module in it.
    if loader is None:
        return
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        _cannot_follow(name, loader)
        return

    def exec_module(module):
        try:
            del loader.exec_module
        except AttributeError:
            pass
        execute(module)
        adapt(name, module)

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        _cannot_follow(name, loader)


class Finder:
    """Finds nothing itself: asks the other finders for the modules above."""

    def find_spec(self, name, path=None, target=None):
        """Return what the next finder returns, None for all other modules."""
        if name not in watched and name not in NAMES:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                _follow(name, spec)
                return spec
        return None

    def invalidate_caches(self):
        """Nothing is cached."""


def insert():
    """Watch imports; modules whose names are reported may have been imported already."""
    for text in read():
        watched.update(modules(text))
    sys.meta_path.insert(0, Finder())
    for name in NAMES:
        module = sys.modules.get(name)
        if module is not None:
            adapt(name, module)
