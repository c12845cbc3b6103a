"""Runs at the start of every Python program that the recorder launches with automatic phases.

Its folder stands first on PYTHONPATH. It leaves sys.path as the program would have found it, and
hands over to the sitecustomize the program would have had. PYTHONPATH itself stays as it is, so
that the program's children are looked at too.
"""

import os
import sys


def _leave_path():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != folder]


def _start_phases():
    if os.environ.get("RLSCOPE_AUTO") != "1":
        return
    try:
        from rlscope_phases import starting

        starting.start()
    except Exception as error:
        # A program without phases is better than one that is disturbed.
        _report_absence("not_started\t" + repr(error))


def _report_absence(status):
    """Report why there are no phases; the package, which may be broken, is not imported for it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rlscope_phases", "absence.py")
    try:
        with open(path) as file:
            loaded = {}
            exec(compile(file.read(), path, "exec"), loaded)
        loaded["report"](status)
    except Exception:
        return


def _import_next():
    """Import the next sitecustomize as site does; what it raises is site's to report."""
    ours = sys.modules.pop(__name__, None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        # Python 2 does not say which; there it is as good as always this one.
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        # Python looks for what it has just imported; without another one it finds this.
        if ours is not None:
            sys.modules.setdefault(__name__, ours)


_start_phases()
_leave_path()
if __name__ == "sitecustomize":
    _import_next()
