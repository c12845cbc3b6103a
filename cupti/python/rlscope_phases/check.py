"""What `rlscope-trace doctor --python` runs in a Python of the user's: which adapters fit.

Imports every library there that has an adapter, and prints what came of it as the last line.
"""

import importlib
import json
import sys

import rlscope_phases
from rlscope_phases import failures, finder, listener


def main():
    """Print what was found as JSON: the status, modules by name, failures by text."""
    is_on = listener.is_on()
    modules = {name: _import(name) for name in list(finder.watched)} if is_on else {}
    found = {
        "status": rlscope_phases.status,
        "modules": {name: outcome for name, outcome in modules.items() if outcome is not None},
        "failures": list(failures.counts),
    }
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def _import(name):
    """Return "found", "absent" in this version of its library, or why not; None: no library."""
    library = name.split(".")[0]
    try:
        importlib.import_module(library)
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == library:
            return None
        return "absent" if name.startswith(error.name or " ") else repr(error)
    except Exception as error:
        return repr(error)
    return "found"
