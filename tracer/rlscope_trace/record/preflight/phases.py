"""Whether automatic phases are found in the libraries of a Python: that Python itself is asked."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from rlscope_trace.installed import SHIM_FOLDER
from rlscope_trace.privileges import invoking_environment
from rlscope_trace.record.preflight.finding import Finding
from rlscope_trace.record.preflight.gpu import SHIM_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_trace.privileges import Identity

_TIMEOUT_S = 300
_CHECK = "from rlscope_phases import check; check.main()"
_REPORT = "report it with the version of the library; what other adapters find is recorded"


def check_phases(python: str, identity: Identity | None) -> list[Finding]:
    """Import what that Python has of the libraries we know, as the user that called sudo."""
    try:
        found = _ask(python, identity)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        what = f"{python} could not be asked: {_plain(str(error))}"
        return [Finding("phases", "warning", what, "--python names the Python of the program")]
    if found["status"] != "on":
        what = f"no automatic phases in {python}: {_plain(found['status'])}"
        return [Finding("phases", "warning", what)]
    libraries = dict.fromkeys(name.partition(".")[0] for name in found["modules"])
    if not libraries:
        return [Finding("phases", "note", f"{python} has no library that phases are found in")]
    return [finding for library in libraries for finding in _of_library(library, found)]


def _ask(python: str, identity: Identity | None) -> dict[str, Any]:
    environment = invoking_environment(identity)
    paths = [str(SHIM_FOLDER / "python"), environment.get("PYTHONPATH", "")]
    environment |= {
        "RLSCOPE_AUTO": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "NVTX_INJECTION64_PATH": str(SHIM_FOLDER / SHIM_NAME),
    }
    owner: dict[str, Any] = {}
    if identity is not None:
        owner = {"user": identity.uid, "group": identity.gid, "extra_groups": identity.groups}
    done = subprocess.run(
        [python, "-c", _CHECK],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=True,
        **owner,
    )
    found = json.loads(done.stdout.rstrip().rpartition(b"\n")[2])
    if not isinstance(found, dict) or not {"status", "modules", "failures"} <= found.keys():
        raise ValueError("its answer cannot be read")
    return found


def _of_library(library: str, found: dict[str, Any]) -> Iterable[Finding]:
    name = f"phases_{_plain(library)}"
    outcomes = {
        module: outcome
        for module, outcome in found["modules"].items()
        if module.partition(".")[0] == library
    }
    failures = [text.split("\t")[1:] for text in found["failures"]]
    failed = [fields for fields in failures if fields[0].partition(".")[0] == library]
    for adapter, error, message in failed:
        what = f"the adapter of {adapter} fails: {error}: {message}"
        yield Finding(name, "warning", _plain(what), _REPORT)
    for module, outcome in outcomes.items():
        if outcome not in ("found", "absent"):
            yield Finding(name, "note", _plain(f"{module} cannot be imported: {outcome}"))
    usable = [module for module, outcome in outcomes.items() if outcome == "found"]
    if not usable:
        yield Finding(name, "warning", f"none of the modules we know: {', '.join(outcomes)}")
    elif not failed:
        yield Finding(name, "ok", _plain(f"adapters install: {', '.join(usable)}"))


def _plain(text: str) -> str:
    """Return a text of another user's program as it may stand on a terminal."""
    return "".join(one if one.isprintable() else "?" for one in text)
